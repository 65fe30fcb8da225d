package peer;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** The workloads of Flott's throughput benchmark: WORKLOAD RECORDS FOLDER. The sinks write their checksums to FOLDER. */
public final class Throughput {
    // Divisions by a constant are cheaper than those by a variable, here and in the other sides' programs.
    private static final long FEW_KEYS = 1_000;
    private static final long MANY_KEYS = 1_000_000;
    private static final long PER_MS = 1_000;
    private static final long WINDOW_MS = 5_000;

    private final StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    private final long records;
    private final String folder;

    private Throughput(long records, String folder) {
        this.records = records;
        this.folder = folder;
    }

    public static void main(String[] args) throws Exception {
        Throughput job = new Throughput(Long.parseLong(args[1]), args[2]);
        switch (args[0]) {
            case "word_count_p1", "word_count_p2", "word_count_text" -> job.wordCount();
            case "chain" -> job.sink(job.filtered(job.mapped()));
            case "chain_process" -> job.sink(job.filtered(job.mapped()).process(new HandOn()));
            case "shuffle_local", "shuffle_tcp" -> job.sink(job.filtered(job.mapped().rebalance()));
            case "count_1k" -> job.count(n -> Long.remainderUnsigned(Words.splitmix64(n), FEW_KEYS));
            case "count_1m" -> job.count(n -> Long.remainderUnsigned(Words.splitmix64(n), MANY_KEYS));
            case "window_1k" -> job.window(n -> Long.remainderUnsigned(Words.splitmix64(n), FEW_KEYS));
            case "window_1m" -> job.window(n -> Long.remainderUnsigned(Words.splitmix64(n), MANY_KEYS));
            default -> throw new IllegalArgumentException("no job for the workload '" + args[0] + "'");
        }
        job.env.execute(args[0]);
    }

    private DataStream<Long> mapped() {
        return env.fromSequence(0, records - 1).map(n -> n * 31 + 7).returns(Types.LONG);
    }

    private SingleOutputStreamOperator<Long> filtered(DataStream<Long> numbers) {
        return numbers.filter(n -> (n & 7) != 0).map(n -> n ^ (n >>> 17)).returns(Types.LONG);
    }

    private void sink(DataStream<Long> numbers) {
        numbers.sinkTo(new Checksum<>(folder, n -> KeyHash.of(n)));
    }

    private void count(KeySelector<Long, Long> key) {
        env.fromSequence(0, records - 1)
                .keyBy(key, Types.LONG)
                .process(new RunningCount())
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .sinkTo(new Checksum<>(folder, counted -> KeyHash.of(counted.f0, counted.f1)));
    }

    private void window(KeySelector<Long, Long> key) {
        WatermarkStrategy<Long> times =
                WatermarkStrategy.<Long>forMonotonousTimestamps().withTimestampAssigner((n, before) -> n / PER_MS);
        env.fromSequence(0, records - 1)
                .assignTimestampsAndWatermarks(times)
                .keyBy(key, Types.LONG)
                .window(TumblingEventTimeWindows.of(Duration.ofMillis(WINDOW_MS)))
                .aggregate(new WindowCount(), new WithKey(), Types.LONG, Types.TUPLE(Types.LONG, Types.LONG))
                .sinkTo(new Checksum<>(folder, counted -> KeyHash.of(counted.f0, counted.f1)));
    }

    private void wordCount() {
        env.fromSequence(0, records / Words.PER_LINE - 1)
                .map(Words::line)
                .returns(Types.STRING)
                .flatMap((String line, Collector<Tuple2<String, Long>> out) -> {
                    for (String word : line.split(" ")) {
                        out.collect(Tuple2.of(word, 1L));
                    }
                })
                .returns(Types.TUPLE(Types.STRING, Types.LONG))
                .keyBy(counted -> counted.f0, Types.STRING)
                .sum(1)
                .sinkTo(new Checksum<>(folder, counted -> KeyHash.of(counted.f0, counted.f1)));
    }

    /** How many records a key has in a window. */
    private static final class WindowCount implements AggregateFunction<Long, Long, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Long record, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    /** Puts the key before the count. */
    private static final class WithKey implements WindowFunction<Long, Tuple2<Long, Long>, Long, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(Long key, TimeWindow window, Iterable<Long> counts, Collector<Tuple2<Long, Long>> out) {
            out.collect(Tuple2.of(key, counts.iterator().next()));
        }
    }

    /** Emits each record unchanged. */
    private static final class HandOn extends ProcessFunction<Long, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Long record, Context context, Collector<Long> out) {
            out.collect(record);
        }
    }
}
