import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** The shape of the program `ticker`: a rate-limited source that never ends, a key, and what is done for each key. */
public final class Ticker {
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        DataGeneratorSource<Long> numbers =
                new DataGeneratorSource<>(
                        number -> number, Long.MAX_VALUE, RateLimiterStrategy.perSecond(100), Types.LONG);
        env.fromSource(numbers, WatermarkStrategy.noWatermarks(), "trades")
                .keyBy(number -> number % 8)
                .map(number -> number + 1)
                .returns(Types.LONG)
                .sinkTo(new DiscardingSink<>());
        env.execute("ticker");
    }
}
