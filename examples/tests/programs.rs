//! The example programs as processes, in their embedded cluster.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "functions of tests")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn program(name: &str) -> Command {
    let path = match name {
        "word_count" => env!("CARGO_BIN_EXE_word_count"),
        "sequence_sum" => env!("CARGO_BIN_EXE_sequence_sum"),
        "line_lengths" => env!("CARGO_BIN_EXE_line_lengths"),
        "fraud_detection" => env!("CARGO_BIN_EXE_fraud_detection"),
        "broadcast_rules" => env!("CARGO_BIN_EXE_broadcast_rules"),
        "late_clicks" => env!("CARGO_BIN_EXE_late_clicks"),
        "top_words" => env!("CARGO_BIN_EXE_top_words"),
        "sensor_logs" => env!("CARGO_BIN_EXE_sensor_logs"),
        "clicks_sessions" => env!("CARGO_BIN_EXE_clicks_sessions"),
        _ => env!("CARGO_BIN_EXE_ticker"),
    };
    Command::new(path)
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Returns the counts that the usual tools give.
fn counted_by_tools(text: &Path) -> Vec<String> {
    let script =
        r#"tr -s '[:space:]' '\n' < "$0" | grep -av '^$' | LC_ALL=C sort | LC_ALL=C uniq -c"#;
    let output = Command::new("sh").args(["-c", script]).arg(text).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| {
            let (count, word) = line.trim_start().split_once(' ').unwrap();
            format!("{word}\t{count}")
        })
        .collect();
    lines.sort_unstable();
    lines
}

fn texts(folder: &Path) -> [PathBuf; 2] {
    let chinese = folder.join("chinese");
    let text = "分布式 流处理\u{3000}系统\n检查点\t屏障 检查点\r\n流处理 a\u{a0}b 流处理";
    fs::write(&chinese, text.repeat(40)).unwrap();
    let licence = Path::new(env!("CARGO_MANIFEST_DIR")).join("../LICENSE");
    [licence, chinese]
}

#[test]
fn words_are_counted_as_the_usual_tools_count_them() {
    let folder = tempfile::tempdir().unwrap();
    for text in texts(folder.path()) {
        let expected = counted_by_tools(&text);
        for parallelism in ["1", "3", "16"] {
            let mut count = program("word_count");
            let printed = run(count.arg("--input").arg(&text).args(["--parallelism", parallelism]));
            assert_eq!(sorted(&printed), expected, "{} × {parallelism}", text.display());
        }
    }
}

#[test]
fn words_of_a_shipped_file_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let [text, _] = texts(folder.path());
    fs::write(folder.path().join("stop.txt"), "the\nof and").unwrap();
    let without =
        |line: &String| !["the\t", "of\t", "and\t"].iter().any(|word| line.starts_with(word));
    let expected: Vec<String> = counted_by_tools(&text).into_iter().filter(without).collect();
    let mut count = program("word_count");
    count.arg("--input").arg(&text).args(["--without", "stop.txt", "--parallelism", "3"]);
    let nothing = count.env_remove("FLOTT_SHIPPED").output().unwrap();
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("yarn.ship-files"), "{nothing:?}");
    assert_eq!(sorted(&run(count.env("FLOTT_SHIPPED", folder.path()))), expected);
}

#[test]
fn counts_go_to_a_file_or_to_parts() {
    let folder = tempfile::tempdir().unwrap();
    let [text, _] = texts(folder.path());
    let expected = counted_by_tools(&text);
    let output = folder.path().join("counts");
    for parallelism in ["1", "4"] {
        let mut count = program("word_count");
        count.arg("--input").arg(&text).arg("--output").arg(&output);
        assert_eq!(run(count.args(["--parallelism", parallelism])), "");
        let written = match parallelism {
            "1" => fs::read_to_string(&output).unwrap(),
            _ => {
                let parts = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().path());
                let parts: Vec<PathBuf> = parts.collect();
                assert_eq!(parts.len(), 4);
                parts.iter().map(|part| fs::read_to_string(part).unwrap()).collect()
            }
        };
        assert_eq!(sorted(&written), expected);
    }
}

#[test]
fn a_sequence_is_summed_once_though_it_failed() {
    let mut sum = program("sequence_sum");
    sum.args(["--count", "10000", "--keys", "3", "--parallelism", "2", "--fail-at", "7000"]);
    let failed = sum.env("FLOTT_RESTART_STRATEGY_TYPE", "none").output().unwrap();
    assert_eq!(failed.status.code(), Some(3));
    let error = String::from_utf8_lossy(&failed.stderr);
    assert!(
        error.contains("number 7000 arrived, at which --fail-at asks the job to fail"),
        "{error}"
    );
    assert!(failed.stdout.is_empty(), "nothing of a failed attempt is seen");
    sum.env("FLOTT_RESTART_STRATEGY_TYPE", "fixed-delay");
    let printed = run(sum.env("FLOTT_RESTART_STRATEGY_FIXED_DELAY_DELAY", "10ms"));
    assert_eq!(sorted(&printed), ["0\t3334\t16668333", "1\t3333\t16661667", "2\t3333\t16665000"]);
}

#[test]
fn a_program_of_several_jobs_must_be_asked_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let [text, _] = texts(folder.path());
    let output = program("line_lengths").arg("--input").arg(text).output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("lengths, longest"), "{error}");
}

#[test]
fn an_unbounded_job_prints_until_it_is_stopped() {
    let mut ticker = program("ticker");
    let mut running = ticker
        .args(["--rate", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let first: Vec<String> = lines.take(5).map(Result::unwrap).collect();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(first.iter().all(|line| line.contains("S") && line.contains('\t')), "{first:?}");
}

#[test]
fn help_and_mistakes_are_told_apart() {
    let help = program("word_count").arg("--help").output().unwrap();
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).contains("--parallelism"));
    let mistake = program("word_count").arg("--inptu").output().unwrap();
    assert_eq!(mistake.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&mistake.stderr).contains("--inptu"));
}

#[test]
fn large_payments_within_a_minute_after_small_ones_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("payments");
    // An account in each line's comment: what is expected of it.
    let lines = [
        "1000 soon 50",
        "2000 later 50",
        "3000 large-first 60000",
        "3500 never-small 60000",
        "30000 soon 60000",
        "29000 large-first 50", // Out of order, and too late for its large payment.
        "61999 later 50001",
        "62000 soon 60000", // 61 s after the small one.
        "70000 twice 99",
        "120000 twice 1",
        "131000 twice 99999", // Within a minute of the second small one.
    ];
    fs::write(&input, lines.join("\n")).unwrap();
    for exchange in ["false", "true"] {
        let mut fraud = program("fraud_detection");
        fraud.env("FLOTT_EXCHANGE_FORCE_SERIALIZATION", exchange);
        let printed = run(fraud.arg("--input").arg(&input));
        let expected = ["later\t61999\t50001", "soon\t30000\t60000", "twice\t131000\t99999"];
        assert_eq!(sorted(&printed), expected);
    }
}

#[test]
fn readings_are_judged_by_the_limit_of_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let (readings, limits) = (folder.path().join("readings"), folder.path().join("limits"));
    let lines = ["5 a 99", "10 a 11", "10 b 50", "15 a 25", "20 a 25", "20 a 21", "30 b 50"];
    fs::write(&readings, lines.join("\n")).unwrap();
    fs::write(&limits, "10 a 10\n15 a 30\n20 a 20\n25 b 49").unwrap();
    for exchange in ["false", "true"] {
        for parallelism in ["1", "3"] {
            let mut rules = program("broadcast_rules");
            rules.env("FLOTT_EXCHANGE_FORCE_SERIALIZATION", exchange);
            rules.arg("--readings").arg(&readings).arg("--limits").arg(&limits);
            let printed = run(rules.env("FLOTT_PARALLELISM_DEFAULT", parallelism));
            let expected = ["a\t10\t11\t10", "a\t20\t21\t20", "a\t20\t25\t20", "b\t30\t50\t49"];
            assert_eq!(sorted(&printed), expected);
        }
    }
}

#[test]
fn clicks_that_come_too_late_are_in_a_file_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (input, late) = (folder.path().join("clicks"), folder.path().join("late"));
    // A watermark waits for a full buffer or for its timeout, so that at the last lines it is anywhere between 520,000 ms (8,000 lines
    // back) and 599,990 ms. What is expected must not depend on where: the minute to 300,000 is over and takes late clicks
    // until 699,999 ms, those to 60,000 and 120,000 took them until 519,999 ms at the latest.
    let mut lines: Vec<String> = (0..60_000).map(|n| format!("{} ann", n * 10)).collect();
    lines.extend(["599950 bob".into(), "299999 ann".into(), "60000 bob".into(), "0 ann".into()]);
    fs::write(&input, lines.join("\n")).unwrap();
    let mut in_time: Vec<String> = (1..=10).map(|n| format!("{}\tann\t6000", n * 60_000)).collect();
    in_time.push("600000\tbob\t1".into());
    for exchange in ["false", "true"] {
        for (lateness, again, too_late) in [
            ("0", None, "0\tann\n299999\tann\n60000\tbob\n"),
            ("400000", Some("300000\tann\t6001".to_owned()), "0\tann\n60000\tbob\n"),
        ] {
            let mut clicks = program("late_clicks");
            clicks.env("FLOTT_EXCHANGE_FORCE_SERIALIZATION", exchange);
            clicks.env("FLOTT_PARALLELISM_DEFAULT", "1");
            clicks.arg("--input").arg(&input).arg("--late").arg(&late);
            let printed = run(clicks.args(["--lateness", lateness]));
            let mut expected: Vec<String> = in_time.iter().cloned().chain(again).collect();
            expected.sort_unstable();
            assert_eq!(sorted(&printed), expected);
            let written = fs::read_to_string(&late).unwrap();
            assert_eq!(sorted(&written), too_late.lines().collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_most_frequent_words_of_each_minute_are_shown_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("words");
    let lines = ["0 a b a", "30000 c b a", "59999 d", "60000 d d", "200000 e"];
    fs::write(&input, lines.join("\n")).unwrap();
    let printed = run(program("top_words").arg("--input").arg(&input).args(["--most", "2"]));
    let expected = ["60000\ta\t3", "60000\tb\t2", "120000\td\t2", "240000\te\t1"];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    let refused =
        program("top_words").arg("--input").arg(&input).args(["--most", "no"]).output().unwrap();
    assert!(!refused.status.success());
}

#[test]
fn clicks_are_put_together_to_visits_though_they_come_out_of_order() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("clicks");
    let lines = [
        "1000 ann /",
        "1500 bob /",
        "9000 ann /shop",
        "12000 ann /pay",
        "5000 ann /list", // Between two visits, which become one.
        "16999 ann /thanks",
        "21999 ann /", // Just a gap later: still the same visit.
        "27001 ann /",
        "60000 bob /help",
        "60001 bob /",
    ];
    fs::write(&input, lines.join("\n")).unwrap();
    let expected = [
        "ann\t1000\t20999\t/ /list /shop /pay /thanks /",
        "ann\t27001\t0\t/",
        "bob\t1500\t0\t/",
        "bob\t60000\t1\t/help /",
    ];
    for exchange in ["false", "true"] {
        let mut clicks = program("clicks_sessions");
        clicks.env("FLOTT_EXCHANGE_FORCE_SERIALIZATION", exchange).args(["--gap", "5000"]);
        assert_eq!(sorted(&run(clicks.arg("--input").arg(&input))), expected);
    }
}

#[test]
fn logs_that_are_hours_apart_are_counted_without_a_late_reading() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for (sensor, hours) in [("attic", 0..3_u64), ("cellar", 40..42), ("roof", 7..9)] {
        let mut log = String::new();
        for hour in hours {
            for reading in 0..1_500 {
                log += &format!("{} {}\n", hour * 3_600_000 + reading * 2_400, reading % 90 + hour);
            }
            expected.push(format!("{}\t{sensor}\t1500\t{}", (hour + 1) * 3_600_000, 89 + hour));
        }
        fs::write(folder.path().join(sensor).with_extension("log"), log).unwrap();
    }
    expected.sort_unstable();
    for parallelism in ["1", "2", "4"] {
        let mut count = program("sensor_logs");
        count.env("FLOTT_PARALLELISM_DEFAULT", parallelism);
        let printed = run(count.arg("--input").arg(folder.path()));
        assert_eq!(sorted(&printed), expected, "{parallelism}");
    }
}
