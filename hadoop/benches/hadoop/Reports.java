import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * Asks for an application's report again and again: a round for each line that it reads, which says how many threads
 * ask at a time.
 */
public class Reports {
  public static void main(String[] args) throws Exception {
    ApplicationId id = ApplicationId.fromString(args[0]);
    int calls = Integer.parseInt(args[1]);
    var system =
        (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    YarnClient yarn = YarnClient.createYarnClient();
    yarn.init(new YarnConfiguration());
    yarn.start();
    var in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      int callers = Integer.parseInt(line);
      var pool = Executors.newFixedThreadPool(callers);
      long before = system.getProcessCpuTime();
      var rounds = new ArrayList<Future<?>>();
      for (int i = 0; i < callers; i++) {
        rounds.add(pool.submit(() -> ask(yarn, id, calls / callers)));
      }
      for (Future<?> round : rounds) {
        round.get();
      }
      System.out.println(system.getProcessCpuTime() - before);
      pool.shutdown();
    }
    yarn.stop();
  }

  private static Void ask(YarnClient yarn, ApplicationId id, int calls) throws Exception {
    for (int i = 0; i < calls; i++) {
      yarn.getApplicationReport(id);
    }
    return null;
  }
}
