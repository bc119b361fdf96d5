//! Figures, read from what programs print; `None` if a program printed something else.

/// Reads a figure.
pub type Read = fn(&str) -> Option<f64>;

/// How often the CPUs switched; programs.sh prints it.
pub fn context_switches(text: &str) -> Option<f64> {
    after(text, "context switches:")
}

/// What `boot` adds to what a command prints.
pub const HOST_SECONDS: &str = "host seconds:";

pub fn host_s(text: &str) -> Option<f64> {
    after(text, HOST_SECONDS)
}

pub fn hackbench_s(text: &str) -> Option<f64> {
    after(text, "Time:")
}

/// Operations in a second of real time: the fifth of the figures after a stressor's name.
pub fn stress_ng_ops(text: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| line.contains("metrc:"));
    let figures = lines.map(|line| line.split_whitespace().skip(4).map(str::parse));
    figures
        .filter_map(|figures| figures.collect::<Result<Vec<f64>, _>>().ok())
        .find(|figures| figures.len() == 6)
        .map(|figures| figures[4])
}

/// The program ends when all events that had begun in time are done, so both numbers are needed.
pub fn sysbench_events(text: &str) -> Option<f64> {
    let events = after(text, "total number of events:")?;
    Some(events / after(text, "total time:")?)
}

/// Answers a second, if all requests were answered well and within 2 s.
pub fn wrk_requests(text: &str) -> Option<f64> {
    let all_well = wrk_answers(text).is_some() && wrk_errors(text) == Some(0.0);
    after(text, "Requests/sec:").filter(|_| all_well)
}

/// Answers, also if others were late, or none. `None` if one was not the page.
pub fn wrk_answers(text: &str) -> Option<f64> {
    if text.contains("Non-2xx") {
        return None;
    }
    let mut lines = text.lines();
    let (count, _) = lines.find_map(|line| line.split_once(" requests in "))?;
    count.trim().parse().ok()
}

/// Connections that failed, and requests that were not answered within 2 s.
pub fn wrk_errors(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    let Some(errors) = lines.find_map(|line| line.trim_start().strip_prefix("Socket errors:"))
    else {
        return Some(0.0);
    };
    let counts = errors
        .split(',')
        .map(|error| error.split_whitespace().last()?.parse::<f64>().ok());
    counts.sum()
}

pub fn wrk_p99_ms(text: &str) -> Option<f64> {
    let said = word_after(text, "99%")?;
    let digits = said.trim_end_matches(char::is_alphabetic);
    let unit = match &said[digits.len()..] {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * unit)
}

/// From the histogram: lines of latency in us and how many there were. `None` if more than one in a hundred is beyond its end.
pub fn cyclictest_p99_us(text: &str) -> Option<f64> {
    let beyond = after(text, "# Histogram Overflows:")?;
    let bucket = |line: &str| {
        let (latency, count) = line.split_once(' ')?;
        Some((latency.parse().ok()?, count.trim().parse().ok()?))
    };
    let buckets: Vec<(f64, f64)> = text.lines().filter_map(bucket).collect();
    let total: f64 = beyond + buckets.iter().map(|(_, count)| count).sum::<f64>();
    let mut seen = 0.0;
    let mut buckets = buckets.iter();
    buckets
        .find(|(_, count)| {
            seen += count;
            seen >= 0.99 * total
        })
        .map(|(latency, _)| *latency)
}

/// The number at the beginning of the word that follows a label, whatever its unit.
fn after(text: &str, label: &str) -> Option<f64> {
    word_after(text, label)?
        .trim_end_matches(char::is_alphabetic)
        .parse()
        .ok()
}

fn word_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.trim_start().strip_prefix(label))?;
    rest.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hackbench() {
        let text = "\
Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)
Each sender will pass 50 messages of 100 bytes
Time: 1.756
context switches: 18110
";
        assert_eq!(hackbench_s(text), Some(1.756));
        assert_eq!(context_switches(text), Some(18110.0));
        assert_eq!(hackbench_s("SENDER: write (error: Broken pipe)"), None);
    }

    #[test]
    fn stress_ng() {
        let text = "\
stress-ng: info:  [844] setting to a 3 second run per stressor
stress-ng: info:  [844] dispatching hogs: 1 switch
stress-ng: metrc: [842] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [842]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)
stress-ng: metrc: [842] switch            28070      3.00      0.07      2.93      9343.87        9341.83
stress-ng: metrc: [842] miscellaneous metrics:
stress-ng: metrc: [842] switch            106713.12 nanosecs per context switch (pipe method) (geometic mean of 1 instances)
stress-ng: info:  [842] successful run completed in 3.02s
";
        assert_eq!(stress_ng_ops(text), Some(9343.87));
        assert_eq!(
            stress_ng_ops("stress-ng: info:  [791] successful run completed in 3.03s"),
            None
        );
    }

    #[test]
    fn sysbench() {
        let text = "\
General statistics:
    total time:                          3.0362s
    total number of events:              112

Latency (ms):
         min:                                  108.02
";
        assert_eq!(sysbench_events(text), Some(112.0 / 3.0362));
        assert_eq!(
            sysbench_events("FATAL: Thread initialization failed!"),
            None
        );
    }

    #[test]
    fn wrk() {
        let text = "\
Running 3s test @ http://127.0.0.1:8080/
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     8.63ms  618.48us  11.92ms   93.45%
    Req/Sec     1.84k    17.27     1.87k    83.33%
  Latency Distribution
     50%    8.64ms
     75%    9.04ms
     90%    9.17ms
     99%    9.77ms
  5485 requests in 3.01s, 6.61MB read
Requests/sec:   1822.55
Transfer/sec:      2.20MB
";
        assert_eq!(wrk_requests(text), Some(1822.55));
        assert_eq!(wrk_p99_ms(text), Some(9.77));
        assert_eq!(wrk_p99_ms("     99%  618.48us"), Some(0.61848));
        assert_eq!(wrk_p99_ms("     99%    1.20s"), Some(1200.0));
        let failed = format!("{text}  Non-2xx or 3xx responses: 5485\n");
        assert_eq!((wrk_answers(&failed), wrk_requests(&failed)), (None, None));
        assert_eq!(wrk_errors(text), Some(0.0));
        let late = format!("{text}  Socket errors: connect 1, read 0, write 0, timeout 25\n");
        assert_eq!(wrk_errors(&late), Some(26.0));
        assert_eq!(
            (wrk_answers(&late), wrk_requests(&late)),
            (Some(5485.0), None)
        );
    }

    #[test]
    fn cyclictest() {
        let text = "\
WARN: open /dev/cpu_dma_latency: Permission denied
# Histogram
000000 000000
000085 000113
000086 000102
000087 001286
000090 000479
000116 000015
000119 000005
# Total: 000002000
# Min Latencies: 00085
# Avg Latencies: 00088
# Max Latencies: 00119
# Histogram Overflows: 00000
";
        assert_eq!(cyclictest_p99_us(text), Some(90.0));
        let with = |from, to| cyclictest_p99_us(&text.replace(from, to));
        assert_eq!(with("000479", "000478"), Some(116.0));
        assert_eq!(with("Overflows: 00000", "Overflows: 00020"), Some(119.0));
        assert_eq!(with("Overflows: 00000", "Overflows: 00021"), None);
    }
}
