import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/** Asks for an application's report again and again: a round for each line that it reads. */
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
    while (in.readLine() != null) {
      long before = system.getProcessCpuTime();
      for (int i = 0; i < calls; i++) {
        yarn.getApplicationReport(id);
      }
      System.out.println(system.getProcessCpuTime() - before);
    }
    yarn.stop();
  }
}
