//! Options of S3 and compatible object stores.

use crate::declare::options;

options! {
    /// The server that speaks S3, as `http://host:port` or `https://host`. By default Amazon's endpoint for the region.
    ENDPOINT: Option<String> = "s3.endpoint" => None;
    /// The region that requests are signed for. By default the environment's (`AWS_REGION`).
    REGION: Option<String> = "s3.region" => None;
    /// The id of the access key. By default the credentials of the environment or of the machine are used.
    ACCESS_KEY: Option<String> = "s3.access-key" => None, secret true;
    /// The secret of the access key in `s3.access-key`.
    SECRET_KEY: Option<String> = "s3.secret-key" => None, secret true;
    /// True if requests name the bucket as the first segment of the path (`http://host/bucket`) instead of in the host
    /// name. Always the case if `s3.endpoint` is an IP address or localhost.
    PATH_STYLE_ACCESS: bool = "s3.path.style.access" => false;
}
