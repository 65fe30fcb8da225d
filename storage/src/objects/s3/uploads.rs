//! Lists the uploads of a folder that are neither completed nor aborted. The client has no such request: it only signs the URL, and this
//! module sends it.

use super::{S3, StoreError};
use object_store::{
    Error,
    client::{
        HttpClient, HttpConnector as _, HttpError, HttpRequest, HttpRequestBody, ReqwestConnector,
    },
    path::Path,
    signer::{Method, SignedUrlOptions, Signer as _},
};
use serde::Deserialize;
use std::time::Duration;

/// Time for which the URL of a request is valid.
const VALID: Duration = Duration::from_secs(60);

/// An upload in parts that was begun and neither completed nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenUpload {
    /// The name within the folder of the object that the upload makes.
    pub(crate) name: String,
    /// The id that the server has given to the upload.
    pub(crate) id: String,
}

/// The answer to a request.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Page {
    upload: Vec<Listed>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    key: String,
    upload_id: String,
}

impl S3 {
    /// Lists the open uploads of objects that would be in this folder itself, not in one below it, in the order of their names.
    pub(crate) async fn open_uploads(&self) -> Result<Vec<OpenUpload>, StoreError> {
        let listed = self.all_pages().await.map_err(|error| self.error("", &error))?;
        let named = listed.into_iter().filter_map(|upload| {
            let name = upload.key.strip_prefix(&self.folder)?.to_owned();
            Some(OpenUpload { name, id: upload.upload_id })
        });
        Ok(named.collect())
    }

    async fn all_pages(&self) -> Result<Vec<Listed>, Error> {
        let client = ReqwestConnector::default().connect(&self.options)?;
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = self.page_again(&client, from.as_ref()).await?;
            found.extend(page.upload);
            let next = Some((page.next_key_marker, page.next_upload_id_marker));
            if !page.is_truncated {
                return Ok(found);
            }
            if next == from {
                return Err(failed("the server repeats a page of the list of uploads".to_owned()));
            }
            from = next;
        }
    }

    /// Asks for a page, and again at most [`RETRIES`](super::RETRIES) times if the server is busy or does not answer.
    async fn page_again(
        &self,
        client: &HttpClient,
        from: Option<&(String, String)>,
    ) -> Result<Page, Error> {
        let mut pause = super::PAUSES.init_backoff;
        for _ in 0..super::RETRIES {
            match self.page(client, from).await {
                Err(error) if may_pass(&error) => tokio::time::sleep(pause).await,
                read => return read,
            }
            pause = (pause * 2).min(super::PAUSES.max_backoff);
        }
        self.page(client, from).await
    }

    /// Asks for the page behind this key and upload, the first one if there is none.
    async fn page(
        &self,
        client: &HttpClient,
        from: Option<&(String, String)>,
    ) -> Result<Page, Error> {
        let mut query = vec![("uploads", ""), ("prefix", self.folder.as_str()), ("delimiter", "/")];
        if let Some((key, upload)) = from {
            query.extend([("key-marker", key.as_str()), ("upload-id-marker", upload.as_str())]);
        }
        let options = SignedUrlOptions::new().with_query(query);
        let bucket = Path::default();
        let url = self.client.signed_url_opts(Method::GET, &bucket, VALID, &options).await?;
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() =
            url.as_str().parse().map_err(|_| failed("its URL is wrong".to_owned()))?;
        let answer = client.execute(request).await.map_err(unanswered)?;
        let status = answer.status();
        let body = answer.into_body().bytes().await.map_err(unanswered)?;
        let text = String::from_utf8_lossy(&body);
        if !status.is_success() {
            // The page of a proxy may show the URL, which is signed: only an answer of S3's own is told.
            let told = if text.contains("</Code>") { &*text } else { "no answer of S3" };
            return Err(failed(format!("{}{status}: {told}", super::BAD_STATUS)));
        }
        page_of(&text)
    }
}

/// Returns true for an answer that another request may not get: 5xx, 429, or none at all.
fn may_pass(error: &Error) -> bool {
    let is_busy = super::has_status(error, "5") || super::has_status(error, "429");
    is_busy || super::http_error(error).is_some_and(|error| super::no_answer(error.kind()))
}

fn page_of(text: &str) -> Result<Page, Error> {
    quick_xml::de::from_str(text)
        .map_err(|error| failed(format!("the list of uploads cannot be read: {error}")))
}

fn failed(why: String) -> Error {
    Error::Generic { store: "S3", source: why.into() }
}

fn unanswered(error: HttpError) -> Error {
    Error::Generic { store: "S3", source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_servers_are_read() {
        let upload = |key: &str, id: &str| Listed { key: key.to_owned(), upload_id: id.to_owned() };
        let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
            <ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n  <Bucket>b</Bucket>";
        // As in Amazon's description of the request.
        let text = format!(
            "{head}<KeyMarker/><UploadIdMarker/><NextKeyMarker>out/b</NextKeyMarker><NextUploadIdMarker>Y_-.1</NextUploadIdMarker>\
             <Delimiter>/</Delimiter><Prefix>out/</Prefix><MaxUploads>2</MaxUploads><IsTruncated>true</IsTruncated>\
             <Upload><Key>out/a&amp;b</Key><UploadId>X</UploadId><Initiator><ID>i</ID></Initiator><Owner><ID>o</ID></Owner>\
             <StorageClass>STANDARD</StorageClass><Initiated>2010-11-10T20:48:33.000Z</Initiated></Upload>\
             <CommonPrefixes><Prefix>out/deeper/</Prefix></CommonPrefixes>\
             <Upload><Key>out/b</Key><UploadId>Y_-.1</UploadId></Upload></ListMultipartUploadsResult>"
        );
        let page = page_of(&text).unwrap();
        assert_eq!(page.upload, [upload("out/a&b", "X"), upload("out/b", "Y_-.1")]);
        assert!(page.is_truncated);
        assert_eq!((&*page.next_key_marker, &*page.next_upload_id_marker), ("out/b", "Y_-.1"));
        let none = page_of(&format!("{head}</ListMultipartUploadsResult>")).unwrap();
        assert_eq!(none, Page::default());
        assert!(page_of("<html>").unwrap_err().to_string().contains("cannot be read"));
    }
}
