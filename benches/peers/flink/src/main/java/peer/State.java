package peer;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Every key gets a kibibyte of state, then keys are updated at a constant rate: FOLDER, for the marks of the sinks. */
public final class State {
    private static final long KEYS = 102_400;
    private static final int BYTES = 1_024;
    private static final double UPDATES_PER_SECOND = 5_000;
    /** Keys that get their state with one number, at the beginning. */
    private static final long FILL = 50;

    private State() {}

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.fromSequence(0, Long.MAX_VALUE - 1)
                .flatMap(new Numbers())
                .returns(Types.LONG)
                .keyBy(key -> key, Types.LONG)
                .process(new Body())
                .returns(Types.LONG)
                .process(new First(args[0]))
                .returns(Types.LONG)
                .sinkTo(new DiscardingSink<>());
        env.execute("state");
    }

    /** Replaces what the source emits by the numbers of a sequence at a constant rate, and these by keys. */
    private static final class Numbers extends RichFlatMapFunction<Long, Long> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;

        private transient ListState<Long> stored;
        private transient long next;
        private transient long begin;
        private transient long made;

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            stored.clear();
            stored.add(next);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            stored = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("next", Types.LONG));
            for (long number : stored.get()) {
                next = number;
            }
        }

        @Override
        public void flatMap(Long ignored, Collector<Long> out) throws Exception {
            int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            if (begin == 0) {
                begin = System.nanoTime();
            }
            long due = begin + (long) (made * 1e9 * subtasks / UPDATES_PER_SECOND);
            long wait = due - System.nanoTime();
            if (wait > 1_000_000) {
                Thread.sleep(wait / 1_000_000);
            }
            made++;
            long number = next * subtasks + subtask;
            next++;
            if (number >= KEYS / FILL) {
                out.collect(Long.remainderUnsigned(Words.splitmix64(number), KEYS));
                return;
            }
            for (long key = number * FILL; key < (number + 1) * FILL; key++) {
                out.collect(key);
            }
        }
    }

    /** Counts the updates of each key, beside a content that cannot be compressed. */
    private static final class Body extends KeyedProcessFunction<Long, Long, Long> {
        private static final long serialVersionUID = 1;

        private transient ValueState<Tuple2<Long, byte[]>> body;

        @Override
        public void open(OpenContext context) {
            body = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>(
                            "body", Types.TUPLE(Types.LONG, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)));
        }

        @Override
        public void processElement(Long key, Context context, Collector<Long> out) throws Exception {
            Tuple2<Long, byte[]> before = body.value();
            byte[] content = before == null ? contentOf(key) : before.f1;
            long updates = before == null ? 1 : before.f0 + 1;
            body.update(Tuple2.of(updates, content));
            out.collect(updates);
        }

        private static byte[] contentOf(long key) {
            byte[] content = new byte[BYTES];
            for (int at = 0; at < BYTES; at += 8) {
                long word = Words.splitmix64(key + at / 8 * KEYS);
                for (int shift = 0; shift < 8; shift++) {
                    content[at + shift] = (byte) (word >>> 8 * shift);
                }
            }
            return content;
        }
    }

    /** Writes down when the first record of each attempt has come. */
    private static final class First extends ProcessFunction<Long, Long> {
        private static final long serialVersionUID = 1;

        private final String folder;
        private transient boolean seen;

        private First(String folder) {
            this.folder = folder;
        }

        @Override
        public void processElement(Long record, Context context, Collector<Long> out) throws IOException {
            if (!seen) {
                seen = true;
                long now = System.currentTimeMillis() * 1_000_000;
                int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
                Path mark = Path.of(folder, "first-" + subtask + "-" + now);
                Path draft = Path.of(mark + ".draft");
                Files.write(draft, Long.toString(now).getBytes(StandardCharsets.UTF_8));
                Files.move(draft, mark, StandardCopyOption.ATOMIC_MOVE);
            }
        }
    }
}
