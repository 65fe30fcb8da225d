//! Listings of S3 that leave out objects whose names the client cannot express: with an empty segment (`a//b`), or with `.` or
//! `..` as a segment. The client fails a whole page on such a name, and says which one it is.

use object_store::{
    Error, ObjectMeta,
    list::{PaginatedListOptions, PaginatedListStore},
    path::{self, Path},
};

/// The most names that a server puts in a page.
const PAGE: usize = 1_000;

/// The place from which the next page is listed.
#[derive(Debug, Clone)]
enum Start {
    Begin,
    /// The listing continues after the page that gave this token.
    Token(String),
    /// The listing continues after an object that was left out.
    Name(String),
}

/// Lists the objects below a folder; an empty folder is the whole bucket. `bucket` is its name, for the warnings about objects that
/// are left out.
///
/// A page with a bad name is asked for again with half as many names, until the bad one is alone in it and is passed over: that
/// takes ten requests more for each.
///
/// # Errors
/// Returns the client's error.
pub(crate) async fn list(
    store: &dyn PaginatedListStore,
    folder: &Path,
    bucket: &str,
) -> Result<Vec<ObjectMeta>, Error> {
    let prefix = (!folder.as_ref().is_empty()).then(|| format!("{folder}/"));
    let (mut found, mut from, mut most) = (Vec::new(), Start::Begin, PAGE);
    loop {
        let (offset, page_token) = match &from {
            Start::Begin => (None, None),
            Start::Token(token) => (None, Some(token.clone())),
            Start::Name(name) => (Some(name.clone()), None),
        };
        let max_keys = (most < PAGE).then_some(most);
        let options = PaginatedListOptions {
            offset,
            page_token,
            max_keys,
            ..PaginatedListOptions::default()
        };
        match store.list_paginated(prefix.as_deref(), options).await {
            Ok(page) => {
                found.extend(page.result.objects);
                match page.page_token {
                    Some(token) => from = Start::Token(token),
                    None => return Ok(found),
                }
            }
            Err(error) => match bad_name(&error) {
                None => return Err(error),
                Some(_) if most > 1 => most /= 2,
                Some(name) => {
                    tracing::warn!(
                        bucket,
                        name,
                        "an object is left out of a listing: its name has an empty, '.' or '..' segment"
                    );
                    (from, most) = (Start::Name(name), PAGE);
                }
            },
        }
    }
}

/// Returns the name that a page was failed for; `None` for every other error.
fn bad_name(error: &Error) -> Option<String> {
    match error {
        Error::InvalidPath {
            source: path::Error::EmptySegment { path } | path::Error::BadSegment { path, .. },
        } => Some(path.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use object_store::{ListResult, list::PaginatedListResult};
    use std::{
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    /// Names in a bucket, sorted, of which a page has three at most.
    struct Names {
        names: Vec<String>,
        requests: AtomicUsize,
    }

    impl PaginatedListStore for Names {
        fn list_paginated<'a, 'b, 'c>(
            &'a self,
            prefix: Option<&'b str>,
            options: PaginatedListOptions,
        ) -> Pin<Box<dyn Future<Output = Result<PaginatedListResult, Error>> + Send + 'c>>
        where
            'a: 'c,
            'b: 'c,
            Self: 'c,
        {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let listed: BoxFuture<'c, _> = Box::pin(async move {
                let prefix = prefix.unwrap_or_default();
                let after = options.page_token.or(options.offset).unwrap_or_default();
                let names = self.names.iter().filter(|name| name.starts_with(prefix));
                let names: Vec<&String> = names.filter(|name| **name > after).collect();
                let most = options.max_keys.unwrap_or(3).min(3);
                let page: Vec<&String> = names.iter().copied().take(most).collect();
                let objects = page.iter().map(|name| {
                    let location = Path::parse(name)?;
                    let (last_modified, e_tag, version) = (Default::default(), None, None);
                    Ok(ObjectMeta { location, last_modified, size: 1, e_tag, version })
                });
                let objects = objects.collect::<Result<Vec<_>, path::Error>>()?;
                let page_token = (names.len() > page.len()).then(|| page[page.len() - 1].clone());
                let result = ListResult {
                    objects,
                    common_prefixes: Vec::new(),
                    extensions: Default::default(),
                };
                Ok(PaginatedListResult { result, page_token })
            });
            listed
        }
    }

    fn listed(names: &[&str], folder: &str) -> (Vec<String>, usize) {
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        let store = Names { names, requests: AtomicUsize::new(0) };
        let found = futures::executor::block_on(list(&store, &Path::from(folder), "b")).unwrap();
        let found = found.into_iter().map(|object| object.location.to_string()).collect();
        (found, store.requests.into_inner())
    }

    #[test]
    fn objects_with_bad_names_are_left_out_wherever_they_are_and_no_others() {
        let good = ["in/a", "in/b", "in/c/d", "in/e", "in/f", "in/g", "in/h/"];
        let shown = ["in/a", "in/b", "in/c/d", "in/e", "in/f", "in/g", "in/h"];
        assert_eq!(listed(&good, "in"), (shown.map(str::to_owned).to_vec(), 3));
        for bad in [
            &["in//x"][..],
            &["in/../x", "in/./x"],
            &["in/c//", "in/c//x", "in/c//y"],
            &["in/z//x"],
            &["in//a", "in/d//", "in/e/..", "in/i/../i", "in/zz//"],
        ] {
            let all = [&good[..], bad].concat();
            assert_eq!(listed(&all, "in").0, shown, "{bad:?}");
        }
        assert_eq!(listed(&["in//x"], "in").0, [""; 0], "and if there are no others");
        assert_eq!(listed(&["x", "//y"], "").0, ["x"]);
    }
}
