package peer;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/** Count and wrapping sum of every record's hash. Each subtask writes its own to FOLDER/SUBTASK when the input ends. */
final class Checksum<T> implements Sink<T> {
    private static final long serialVersionUID = 1;

    private final Hash<T> hash;
    private final String folder;

    Checksum(String folder, Hash<T> hash) {
        this.folder = folder;
        this.hash = hash;
    }

    /** The hash of a record. */
    interface Hash<T> extends Serializable {
        long of(T record);
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) {
        return new Writer<>(hash, Path.of(folder, String.valueOf(context.getTaskInfo().getIndexOfThisSubtask())));
    }

    private static final class Writer<T> implements SinkWriter<T> {
        private final Hash<T> hash;
        private final Path file;
        private long count;
        private long sum;

        Writer(Hash<T> hash, Path file) {
            this.hash = hash;
            this.file = file;
        }

        @Override
        public void write(T record, Context context) {
            count++;
            sum += hash.of(record);
        }

        @Override
        public void flush(boolean endOfInput) throws IOException {
            if (endOfInput) {
                Files.writeString(file, Long.toUnsignedString(count) + "\t" + Long.toUnsignedString(sum));
            }
        }

        @Override
        public void close() {}
    }
}
