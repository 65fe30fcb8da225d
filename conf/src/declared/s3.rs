//! Options of S3 and compatible object stores.

use crate::declare::options;

options! {
    /// The server that speaks S3, as `http://host:port` or `https://host`. Where it is not set, Amazon's of the region.
    ENDPOINT: Option<String> = "s3.endpoint" => None;
    /// The region that requests are signed for. Where it is not set, that of the environment (`AWS_REGION`).
    REGION: Option<String> = "s3.region" => None;
    /// The id of the access key. Where it is not set, the environment's or the machine's own credentials are used.
    ACCESS_KEY: Option<String> = "s3.access-key" => None, secret true;
    /// The secret that belongs to `s3.access-key`.
    SECRET_KEY: Option<String> = "s3.secret-key" => None, secret true;
    /// Whether the bucket is the first segment of the path (`http://host/bucket`) instead of a part of the host's
    /// name. Always so where `s3.endpoint` is an IP address or localhost.
    PATH_STYLE_ACCESS: bool = "s3.path.style.access" => false;
}
