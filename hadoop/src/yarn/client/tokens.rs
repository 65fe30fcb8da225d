//! Delegation tokens of ResourceManagers.

use super::YarnClient;
use crate::tokens::{Token, TokenProto, service_of};
use crate::yarn::YarnError;
use crate::yarn::messages::*;

impl YarnClient {
    /// Gets a delegation token of this client's user for the ResourceManagers, which only `renewer` may renew. On
    /// secure clusters only users with Kerberos get one. Its service is set to the addresses of all ResourceManagers,
    /// by which clients look for it; their hosts are looked up.
    ///
    /// # Errors
    /// Fails with `YarnError::Address` if a host has no address; `YarnError::Incomplete` if the cluster gives no token;
    /// `YarnError::Call` if no ResourceManager answers after all tries, or for its exception.
    pub async fn delegation_token(&self, renewer: &str) -> Result<Token, YarnError> {
        let method = "getDelegationToken";
        let request = GetDelegationTokenRequest { renewer: renewer.to_owned() };
        let response: GetDelegationTokenResponse = self.call(method, &request).await?;
        let token = response.token.ok_or(YarnError::Incomplete { method, field: "token" })?;
        Ok(Token::from(token).with_service(self.token_service().await?))
    }

    /// Returns the service of a delegation token: the addresses of all ResourceManagers, separated by commas, because
    /// any of them may be the active one. ResourceManagers leave the service out of their tokens. Looks the hosts up.
    ///
    /// # Errors
    /// Fails with [`YarnError::Address`].
    async fn token_service(&self) -> Result<String, YarnError> {
        let mut services = Vec::new();
        for rm in self.servers.iter() {
            let found = tokio::net::lookup_host((rm.host.as_str(), rm.port)).await;
            let address = found.ok().and_then(|mut addresses| addresses.next());
            let unknown = || YarnError::Address { host: rm.host.clone() };
            services.push(service_of(&rm.host, address.ok_or_else(unknown)?, self.use_ip));
        }
        Ok(services.join(","))
    }

    /// Renews a delegation token at the ResourceManager, which only its renewer may do. Returns its new expiry in milliseconds since 1970,
    /// at most the end that was set when the token was issued. The token itself stays the same.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example because the user may
    /// not do this, or the token is cancelled or expired already.
    pub async fn renew_delegation_token(&self, token: &Token) -> Result<u64, YarnError> {
        let request = RenewDelegationTokenRequest { token: TokenProto::from(token) };
        let response: RenewDelegationTokenResponse =
            self.call("renewDelegationToken", &request).await?;
        Ok(response.new_expiry_time)
    }

    /// Cancels a delegation token at the ResourceManager; nobody can use it afterwards. Its owner and its renewer may do this.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example because the user may
    /// not do this, or the token is cancelled or expired already.
    pub async fn cancel_delegation_token(&self, token: &Token) -> Result<(), YarnError> {
        let request = CancelDelegationTokenRequest { token: TokenProto::from(token) };
        let _: CancelDelegationTokenResponse = self.call("cancelDelegationToken", &request).await?;
        Ok(())
    }
}
