//! A realm of its own for a cluster: MIT's KDC, from the system's packages, with all its files in the cluster's
//! directory. Keys are random; no password is kept or shown.

use super::layout::{Layout, Port};
use crate::run::{Result, run};
use crate::tools::find;
use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

const REALM: &str = "TEST.LOCAL";
const PACKAGES: &[&str] = &["krb5-kdc", "krb5-admin-server"];
/// The services' keytabs with their principals; users' bear their names.
const SERVICES: &[(&str, &[&str])] = &[
    ("hdfs.keytab", &["hdfs/localhost", "HTTP/localhost"]),
    ("rm.keytab", &["rm/localhost", "HTTP/localhost"]),
    ("nm.keytab", &["nm/localhost", "HTTP/localhost"]),
];

/// Makes the realm, its principals and their keytabs.
pub(super) fn make(layout: &Layout) -> Result<()> {
    let programs = ["kdb5_util", "kadmin.local", "krb5kdc"].map(find);
    if programs.iter().any(Option::is_none) {
        install()?;
    }
    fs::write(layout.krb("krb5.conf"), client_settings(layout.port(Port::Kdc)))?;
    fs::write(layout.krb("kdc.conf"), server_settings(layout))?;
    // The key that encrypts the database; it stays in the stash beside it.
    let master = random()?;
    let mut create = of_realm(layout, "kdb5_util")?;
    create.args(["create", "-s", "-r", REALM]);
    tell(layout, create, &format!("{master}\n{master}\n"))?;
    let mut keytabs: Vec<(String, &[&str])> =
        SERVICES.iter().map(|(keytab, principals)| ((*keytab).to_owned(), *principals)).collect();
    let users = [layout.user.as_str(), layout.owner.as_str()];
    keytabs.extend(users.chunks(1).map(|user| (format!("{}.keytab", user.concat()), user)));
    keytabs.dedup();
    let (mut add, mut export) = (String::new(), String::new());
    for (keytab, principals) in &keytabs {
        for principal in *principals {
            if !add.contains(&format!(" {principal}\n")) {
                add.push_str(&format!("addprinc -randkey {principal}\n"));
            }
            // Without new keys: another keytab may have the principal too.
            let file = layout.krb(keytab);
            export.push_str(&format!("ktadd -norandkey -k {} {principal}\n", file.display()));
        }
    }
    tell(layout, of_realm(layout, "kadmin.local")?, &(add + &export))?;
    for (keytab, _) in SERVICES {
        if !layout.krb(keytab).is_file() {
            let log = layout.log("kerberos");
            return Err(format!("no keytabs were made; see {}", log.display()).into());
        }
    }
    Ok(())
}

/// The KDC, to be started. The path of its own file of its number marks it as this cluster's.
pub(super) fn server(layout: &Layout) -> Result<Command> {
    let mut kdc = of_realm(layout, "krb5kdc")?;
    kdc.arg("-n").arg("-P").arg(layout.krb("krb5kdc.pid"));
    Ok(kdc)
}

/// Lets one of Hadoop's programs be the file system's owner.
pub(super) fn log_in(layout: &Layout, command: &mut Command) {
    command.env("KRB5PRINCIPAL", format!("hdfs/localhost@{REALM}"));
    command.env("KRB5KEYTAB", layout.krb("hdfs.keytab"));
}

/// Returns the environment variables with which a program of `user` uses Kerberos. The last two have Hadoop's own
/// names.
pub(super) fn environment(layout: &Layout, user: &str) -> [(&'static str, String); 3] {
    let keytab = layout.krb(&format!("{user}.keytab"));
    [
        ("KRB5_CONFIG", layout.krb("krb5.conf").display().to_string()),
        ("KRB5KEYTAB", keytab.display().to_string()),
        ("KRB5PRINCIPAL", format!("{user}@{REALM}")),
    ]
}

/// A service's principal on this host, and its keytab.
pub(super) fn service(layout: &Layout, name: &str, keytab: &str) -> (String, String) {
    (format!("{name}/localhost@{REALM}"), layout.krb(keytab).display().to_string())
}

/// Installs the packages on a machine that is made for it; asks for them elsewhere.
fn install() -> Result<()> {
    let by_hand = format!("apt-get install {}", PACKAGES.join(" "));
    let is_ci = super::is_ci();
    if !is_ci {
        return Err(
            format!("a secure cluster needs MIT Kerberos' KDC; install it: {by_hand}").into()
        );
    }
    let apt = |args: &[&str]| {
        let mut apt = Command::new("apt-get");
        run(apt.args(["-q", "-y"]).args(args).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    apt(&[&["install", "--no-install-recommends"], PACKAGES].concat())
}

fn of_realm(layout: &Layout, name: &str) -> Result<Command> {
    let program = find(name).ok_or(format!("no {name}: install {}", PACKAGES.join(" ")))?;
    let mut command = Command::new(program);
    command.env("KRB5_CONFIG", layout.krb("krb5.conf"));
    command.env("KRB5_KDC_PROFILE", layout.krb("kdc.conf"));
    Ok(command)
}

/// Runs a command that reads what to do.
fn tell(layout: &Layout, mut command: Command, what: &str) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| format!("{name}: {e}");
    let log = fs::OpenOptions::new().create(true).append(true).open(layout.log("kerberos"))?;
    command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(what.as_bytes()).map_err(failed)?;
    }
    match child.wait().map_err(failed)? {
        status if status.success() => Ok(()),
        status => {
            let log = layout.log("kerberos");
            Err(format!("{name} ended with {status}; see {}", log.display()).into())
        }
    }
}

/// Sixteen random bytes in hexadecimal.
fn random() -> Result<String> {
    let mut bytes = [0_u8; 16];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn client_settings(port: u16) -> String {
    format!(
        "[libdefaults]
  default_realm = {REALM}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  rdns = false
  dns_canonicalize_hostname = false
  udp_preference_limit = 1
  renew_lifetime = 1d
[realms]
  {REALM} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {REALM}
"
    )
}

fn server_settings(layout: &Layout) -> String {
    let at = |file: &str| layout.krb(file).display().to_string();
    let port = layout.port(Port::Kdc);
    format!(
        "[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {REALM} = {{
    database_name = {}
    key_stash_file = {}
    acl_file = {}
    max_life = 1h
    max_renewable_life = 1d
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
",
        at("principal"),
        at("stash"),
        at("kadm5.acl"),
    )
}
