use super::*;
use proptest::prelude::*;
use std::time::Duration;

/// A configuration of Hadoop's defaults and these properties.
pub(crate) fn with_properties(properties: &[(&str, &str)]) -> Configuration {
    let mut conf = Configuration::with_defaults();
    for (name, value) in properties {
        conf.set(name, *value);
    }
    conf
}

fn conf(xml: &str) -> Configuration {
    let mut conf = Configuration::empty();
    conf.add_xml("test", &format!("<configuration>{xml}</configuration>"), &mut NoIncludes)
        .unwrap();
    conf
}
fn property(name: &str, value: &str) -> String {
    format!("<property><name>{name}</name><value>{value}</value></property>")
}

#[test]
fn later_resources_win_unless_a_property_is_final() {
    let mut c = conf(
        "<property><name> a </name><value>1</value><final>true</final></property>
         <property><name>b</name><value>1</value></property>
         <property name='c' value='1' final='true'/>",
    );
    let second = format!(
        "<configuration>{}{}{}</configuration>",
        property("a", "2"),
        property("b", "2"),
        property("c", "2")
    );
    c.add_xml("second", &second, &mut NoIncludes).unwrap();
    assert_eq!(c.get("a").unwrap().unwrap(), "1");
    assert_eq!(c.get("b").unwrap().unwrap(), "2");
    assert_eq!(c.get("c").unwrap().unwrap(), "1");
    assert_eq!((c.source("a"), c.source("b")), (Some("test"), Some("second")));
    c.set("a", "3");
    assert_eq!(c.get("a").unwrap().unwrap(), "3");
    assert!(c.is_final("a"));
}

#[test]
fn references_are_replaced_from_the_inside_out() {
    let mut c = conf(
        &[
            property("host", "h"),
            property("kind", "ho"),
            property("address", "${host}:${port}"),
            property("port", "1"),
            property("nested", "${${kind}st}"),
            property("unknown", "${nobody} ${host}"),
            property("blank", "${ho st} ${} ${"),
            property("env", "${env.A}|${env.B-b}|${env.C:-c}|${env.D-d}|${env.E}"),
        ]
        .concat(),
    );
    c.set_environment("A", "a");
    c.set_environment("C", "");
    c.set_environment("D", "");
    let get = |name: &str| c.get(name).unwrap().unwrap();
    assert_eq!(get("address"), "h:1");
    assert_eq!(get("nested"), "h");
    assert_eq!(get("unknown"), "${nobody} h");
    assert_eq!(get("blank"), "${ho st} ${} ${");
    assert_eq!(get("env"), "a|b|c||${env.E}");
    let mut c = c.clone();
    c.set_system("host", "system");
    assert_eq!(c.get("address").unwrap().unwrap(), "system:1");
}

#[test]
fn values_that_never_stop_expanding_are_errors() {
    let c =
        conf(&[property("a", "${b}"), property("b", "${a}"), property("c", "x${c}${c}")].concat());
    for name in ["a", "b", "c"] {
        assert!(matches!(c.get(name), Err(ConfError::Expansion { .. })), "{name}");
    }
    assert!(c.to_xml(true).is_err());
    assert!(c.to_xml(false).is_ok());
}

#[test]
fn unknown_properties_survive_being_written_out() {
    let mut c = conf(
        &[
            property("some.plugin", "&lt;a&gt; &amp; b"),
            property("home", "${env.HOME_OF_TEST}/x"),
            "<property><name>f</name><value><![CDATA[a<b]]></value><final>true</final></property>"
                .to_owned(),
        ]
        .concat(),
    );
    c.set_environment("HOME_OF_TEST", "/home");
    let mut again = Configuration::empty();
    again.add_xml("copy", &c.to_xml(true).unwrap(), &mut NoIncludes).unwrap();
    assert_eq!(again.get("some.plugin").unwrap().unwrap(), "<a> & b");
    assert_eq!(again.get_raw("home"), Some("/home/x"));
    assert_eq!(again.get_raw("f"), Some("a<b"));
    assert!(again.is_final("f"));
    let mut raw = Configuration::empty();
    raw.add_xml("copy", &c.to_xml(false).unwrap(), &mut NoIncludes).unwrap();
    assert_eq!(raw.get_raw("home"), Some("${env.HOME_OF_TEST}/x"));
}

#[test]
fn a_name_in_an_attribute_is_trimmed_as_one_in_an_element() {
    let c = conf("<property name=' a ' value='1'/>");
    let written = c.to_xml(false).unwrap();
    let mut again = Configuration::empty();
    again.add_xml("again", &written, &mut NoIncludes).unwrap();
    assert_eq!((c.get_raw("a"), again.get_raw("a")), (Some("1"), Some("1")));
}

#[test]
fn included_files_are_relative_and_fall_back() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
    };
    write(
        "core-site.xml",
        "<?xml version=\"1.0\"?>\n<?xml-stylesheet type='text/xsl' href='x.xsl'?>
        <configuration xmlns:xi='http://www.w3.org/2001/XInclude'>
          <xi:include href='sub/a.xml'/>
          <xi:include href='absent.xml'><xi:fallback>
            <property><name>fell</name><value>back</value></property></xi:fallback></xi:include>
          <property><name>last</name><value>core</value></property>
        </configuration>",
    );
    write(
        "sub/a.xml",
        "<configuration xmlns:xi='http://www.w3.org/2001/XInclude'><xi:include href='b.xml'/>
         <property><name>last</name><value>a</value></property></configuration>",
    );
    write(
        "sub/b.xml",
        "<configuration><property><name>b</name><value>1</value></property></configuration>",
    );
    let c = Configuration::load_from(dir.path()).unwrap();
    assert_eq!(c.get_raw("b"), Some("1"));
    assert_eq!(c.get_raw("fell"), Some("back"));
    assert_eq!(c.get_raw("last"), Some("core"));
    assert!(c.source("b").unwrap().ends_with("sub/b.xml"));

    write(
        "yarn-site.xml",
        "<configuration xmlns:xi='x'><xi:include href='yarn-site.xml'/></configuration>",
    );
    assert!(matches!(Configuration::load_from(dir.path()), Err(ConfError::Includes { .. })));
    write(
        "yarn-site.xml",
        "<configuration xmlns:xi='x'><xi:include href='none.xml'/></configuration>",
    );
    assert!(matches!(Configuration::load_from(dir.path()), Err(ConfError::Read { .. })));
}

#[test]
fn what_is_no_configuration_says_what_is_wrong() {
    let mut c = Configuration::empty();
    let mut wrong = |xml: &str| c.add_xml("f.xml", xml, &mut NoIncludes).unwrap_err().to_string();
    assert!(wrong("<configuration><property></configuration>").contains("f.xml"));
    assert!(wrong("<x/>").contains("<x>"));
    assert!(wrong("").contains("f.xml"));
    let dtd = "<!DOCTYPE c [<!ENTITY a 'aaaa'>]><configuration>&a;</configuration>";
    assert!(wrong(dtd).to_lowercase().contains("dtd"));
}

#[test]
fn typed_readers_take_hadoops_spellings_and_refuse_others() {
    let c = conf(
        &[
            property("t", " TRUE "),
            property("bad", "yes"),
            property("hex", "0x10"),
            property("neg", "-0x10"),
            property("ms", "1500"),
            property("m", "2m"),
            property("bytes", "3k"),
            property("list", " a, ,b ,"),
            property("empty", ""),
        ]
        .concat(),
    );
    assert_eq!(c.get_bool("t").unwrap(), Some(true));
    assert!(matches!(c.get_bool("bad"), Err(ConfError::Type { .. })));
    assert_eq!(c.get_i64("hex").unwrap(), Some(16));
    assert_eq!(c.get_i64("neg").unwrap(), Some(-16));
    assert!(c.get_i64("bad").is_err());
    assert_eq!(c.get_duration("ms").unwrap(), Some(Duration::from_millis(1500)));
    assert_eq!(c.get_duration("m").unwrap(), Some(Duration::from_secs(120)));
    assert!(c.get_duration("neg").is_err());
    assert_eq!(c.get_bytes("bytes").unwrap(), Some(3072));
    assert_eq!(c.get_list("list").unwrap(), ["a", "b"]);
    assert_eq!(c.get_i64("empty").unwrap(), None);
    assert_eq!(c.get_i64("absent").unwrap(), None);
    assert!(matches!(c.require("empty", "a reason"), Err(ConfError::Missing { .. })));
}

#[test]
fn every_default_can_be_read_and_old_names_lead_to_new_ones() {
    let mut c = Configuration::with_defaults();
    c.set_system("user.name", "u");
    for (name, _) in defaults::DEFAULTS {
        assert!(!c.get(name).unwrap().unwrap().contains("${"), "{name}");
    }
    assert!(defaults::DEFAULTS.is_sorted());
    c.add_xml(
        "old",
        &format!("<configuration>{}</configuration>", property("fs.default.name", "hdfs://n")),
        &mut NoIncludes,
    )
    .unwrap();
    assert_eq!(c.get_raw("fs.defaultFS"), Some("hdfs://n"));
    assert_eq!(c.get_raw("fs.default.name"), Some("hdfs://n"));
}

#[test]
fn debug_shows_no_value() {
    let declared = parse(
        "r",
        &format!("<configuration>{}</configuration>", property("n", "hunter2")),
        &mut NoIncludes,
    );
    let shown = format!("{declared:?}");
    assert!(shown.contains("\"n\"") && !shown.contains("hunter2"), "{shown}");
    let c = conf(&property("password", "hunter2"));
    assert!(!format!("{c:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_an_error(text in ".{0,400}", xml in "[<>/&;\"'=a-c! \\[\\]-]{0,200}") {
        let mut c = Configuration::empty();
        let _ = c.add_xml("any", &text, &mut NoIncludes);
        let _ = c.add_xml("any", &format!("<configuration>{xml}</configuration>"), &mut NoIncludes);
    }

    #[test]
    fn any_value_expands_or_is_an_error(values in prop::collection::vec("[${}ab.:env-]{0,40}", 3)) {
        let mut c = Configuration::empty();
        for (name, value) in ["a", "b", "ab"].iter().zip(&values) {
            c.set(name, value.clone());
        }
        for name in ["a", "b", "ab"] {
            if let Ok(Some(value)) = c.get(name) {
                prop_assert!(value.len() <= 1 << 20);
            }
        }
    }

    #[test]
    fn written_properties_are_read_back(values in prop::collection::btree_map("[a-z.]{1,12}", "[ -~\u{e9}\n\t\r]{0,40}", 0..8)) {
        let mut c = Configuration::empty();
        for (name, value) in &values {
            c.set(name, value.clone());
        }
        let mut again = Configuration::empty();
        again.add_xml("copy", &c.to_xml(false).unwrap(), &mut NoIncludes).unwrap();
        for (name, value) in &values {
            prop_assert_eq!(again.get_raw(name), Some(value.as_str()));
        }
    }
}
