package check;

import java.util.Collection;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.client.JobExecutionException;
import org.apache.flink.runtime.client.JobStatusMessage;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.rest.messages.ClusterOverviewHeaders;
import org.apache.flink.runtime.rest.messages.EmptyMessageParameters;
import org.apache.flink.runtime.rest.messages.EmptyRequestBody;
import org.apache.flink.runtime.rest.messages.JobIDPathParameter;
import org.apache.flink.runtime.rest.messages.JobMessageParameters;
import org.apache.flink.runtime.rest.messages.JobPlanHeaders;
import org.apache.flink.runtime.rest.messages.MessageParameters;
import org.apache.flink.runtime.rest.messages.MessagePathParameter;
import org.apache.flink.runtime.rest.messages.checkpoints.CheckpointConfigHeaders;
import org.apache.flink.runtime.rest.messages.checkpoints.CheckpointIdPathParameter;
import org.apache.flink.runtime.rest.messages.checkpoints.CheckpointMessageParameters;
import org.apache.flink.runtime.rest.messages.checkpoints.CheckpointStatisticDetailsHeaders;
import org.apache.flink.runtime.rest.messages.checkpoints.CheckpointStatistics;
import org.apache.flink.runtime.rest.messages.checkpoints.CheckpointingStatistics;
import org.apache.flink.runtime.rest.messages.checkpoints.CheckpointingStatisticsHeaders;
import org.apache.flink.runtime.rest.messages.checkpoints.TaskCheckpointMessageParameters;
import org.apache.flink.runtime.rest.messages.checkpoints.TaskCheckpointStatisticsHeaders;
import org.apache.flink.runtime.rest.messages.checkpoints.TaskCheckpointStatisticsWithSubtaskDetails;

/**
 * Talks to a cluster with Flink's own client. Each argument behind host and port is one step, {@code VERB=JOB=DIRECTORY}; each prints a line,
 * and the first that fails ends the program with its exception.
 */
public final class Client {
    private static final long WITHIN_SECONDS = 60;

    private Client() {}

    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.ADDRESS, args[0]);
        configuration.set(RestOptions.PORT, Integer.parseInt(args[1]));
        configuration.set(RestOptions.RETRY_MAX_ATTEMPTS, 2);
        try (RestClusterClient<String> client = new RestClusterClient<>(configuration, "flott")) {
            for (int i = 2; i < args.length; i++) {
                String[] step = args[i].split("=", 3);
                System.out.println(step[0] + ": " + run(client, step));
            }
        }
    }

    private static String run(RestClusterClient<String> client, String[] step) throws Exception {
        JobID job = step.length > 1 && !step[1].isEmpty() ? JobID.fromHexString(step[1]) : null;
        switch (step[0]) {
            case "list":
                Collection<JobStatusMessage> jobs = client.listJobs().get(WITHIN_SECONDS, TimeUnit.SECONDS);
                StringBuilder states = new StringBuilder();
                for (JobStatusMessage each : jobs) {
                    states.append(each.getJobId()).append('/').append(each.getJobState()).append(' ');
                }
                return states.toString().trim();
            case "details":
                return client.getJobDetails(job).get(WITHIN_SECONDS, TimeUnit.SECONDS).getJobVertexInfos().size() + " vertices";
            case "status":
                JobStatus status = client.getJobStatus(job).get(WITHIN_SECONDS, TimeUnit.SECONDS);
                return status.toString();
            case "plan":
                JobMessageParameters parameters = new JobMessageParameters();
                parameters.jobPathParameter.resolve(job);
                return client
                        .sendRequest(JobPlanHeaders.getInstance(), parameters, EmptyRequestBody.getInstance())
                        .get(WITHIN_SECONDS, TimeUnit.SECONDS)
                        .getPlan()
                        .getNodes()
                        .size() + " nodes";
            case "overview":
                return client
                        .sendRequest(ClusterOverviewHeaders.getInstance(), EmptyMessageParameters.getInstance(), EmptyRequestBody.getInstance())
                        .get(WITHIN_SECONDS, TimeUnit.SECONDS)
                        .getNumTaskManagersConnected() + " TaskManagers";
            case "checkpoints":
                return checkpoints(client, job);
            case "cancel":
                client.cancel(job).get(WITHIN_SECONDS, TimeUnit.SECONDS);
                return "cancelled";
            case "savepoint":
                return client.triggerSavepoint(job, step[2], SavepointFormatType.CANONICAL).get(WITHIN_SECONDS, TimeUnit.SECONDS);
            case "stop":
                return client.stopWithSavepoint(job, false, step[2], SavepointFormatType.CANONICAL).get(WITHIN_SECONDS, TimeUnit.SECONDS);
            case "dispose":
                client.disposeSavepoint(step[2]).get(WITHIN_SECONDS, TimeUnit.SECONDS);
                return "disposed";
            case "result":
                JobResult result = client.requestJobResult(job).get(WITHIN_SECONDS, TimeUnit.SECONDS);
                try {
                    result.toJobExecutionResult(Client.class.getClassLoader());
                    return result.getApplicationStatus().toString();
                } catch (JobExecutionException failed) {
                    return result.getApplicationStatus() + " because of " + failed.getCause().getMessage();
                }
            default:
                throw new IllegalArgumentException(step[0]);
        }
    }

    /** Reads all that REST says of a job's checkpoints: configuration, statistics, the newest one's details and those of its first vertex. */
    private static String checkpoints(RestClusterClient<String> client, JobID job) throws Exception {
        JobMessageParameters ofJob = new JobMessageParameters();
        ofJob.jobPathParameter.resolve(job);
        client.sendRequest(CheckpointConfigHeaders.getInstance(), ofJob, EmptyRequestBody.getInstance()).get(WITHIN_SECONDS, TimeUnit.SECONDS);
        CheckpointingStatistics all = client
                .sendRequest(CheckpointingStatisticsHeaders.getInstance(), ofJob, EmptyRequestBody.getInstance())
                .get(WITHIN_SECONDS, TimeUnit.SECONDS);
        CheckpointStatistics newest = all.getHistory().get(0);
        CheckpointMessageParameters ofCheckpoint = new CheckpointMessageParameters();
        resolve(ofCheckpoint, job, newest.getId(), null);
        CheckpointStatistics details = client
                .sendRequest(CheckpointStatisticDetailsHeaders.getInstance(), ofCheckpoint, EmptyRequestBody.getInstance())
                .get(WITHIN_SECONDS, TimeUnit.SECONDS);
        JobVertexID vertex = details.getCheckpointStatisticsPerTask().keySet().iterator().next();
        TaskCheckpointMessageParameters ofVertex = new TaskCheckpointMessageParameters();
        resolve(ofVertex, job, newest.getId(), vertex);
        TaskCheckpointStatisticsWithSubtaskDetails task = client
                .sendRequest(TaskCheckpointStatisticsHeaders.getInstance(), ofVertex, EmptyRequestBody.getInstance())
                .get(WITHIN_SECONDS, TimeUnit.SECONDS);
        return all.getCounts().getNumberCompletedCheckpoints() + " completed, newest is savepoint " + details.isSavepoint()
                + ", latest " + (all.getLatestCheckpoints().getSavepointStatistics() != null)
                + ", " + details.getCheckpointStatisticsPerTask().size() + " vertices, "
                + task.getSubtaskCheckpointStatistics().size() + " subtasks";
    }

    private static void resolve(MessageParameters parameters, JobID job, long checkpoint, JobVertexID vertex) throws Exception {
        for (MessagePathParameter<?> parameter : parameters.getPathParameters()) {
            switch (parameter.getKey()) {
                case JobIDPathParameter.KEY:
                    parameter.resolveFromString(job.toString());
                    break;
                case CheckpointIdPathParameter.KEY:
                    parameter.resolveFromString(Long.toString(checkpoint));
                    break;
                default:
                    parameter.resolveFromString(vertex.toString());
            }
        }
    }
}
