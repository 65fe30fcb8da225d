package peer;

/** The text of the word count: line i has ten words, word j of it is w{splitmix64(10 i + j) mod 10000}. */
final class Words {
    static final long PER_LINE = 10;
    private static final long DISTINCT = 10_000;

    private Words() {}

    static long splitmix64(long number) {
        long mixed = number + 0x9e3779b97f4a7c15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
        return mixed ^ (mixed >>> 31);
    }

    static String line(long number) {
        StringBuilder line = new StringBuilder(64);
        for (long word = 0; word < PER_LINE; word++) {
            if (word > 0) {
                line.append(' ');
            }
            line.append('w').append(Long.remainderUnsigned(splitmix64(PER_LINE * number + word), DISTINCT));
        }
        return line.toString();
    }
}
