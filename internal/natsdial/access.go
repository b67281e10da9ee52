package natsdial

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// maxCredentials bounds a file of credentials, in bytes.
const maxCredentials = 1 << 20

// NoCredentials is the value of Access.Credentials with which a node presents no key: the servers require none, or
// the URLs have a name and password.
const NoCredentials = "none"

// Access holds the files with which a node signs in to NATS servers of another operator. Each field
// has the name of its option: a file with a user JWT and its key, a PEM file of the authorities for the certificates
// of the servers, and PEM files of the node's client certificate and its key. All may be "".
type Access struct{ Credentials, CA, Cert, Key string }

// Check reads the files and returns an error for each option (credentials, ca or cert) whose file
// is unusable at the given time: missing, secret but readable by others, not of the expected kind,
// or expired.
func (a *Access) Check(now time.Time) map[string]error {
	out := make(map[string]error)
	note := func(option, file string, check func(time.Time) error) {
		if file == "" {
			return
		}
		if err := check(now); err != nil {
			out[option] = err
		}
	}
	note("credentials", a.Credentials, a.credentials)
	note("ca", a.CA, a.authorities)
	note("cert", a.Cert, a.certificate)
	return out
}

// readAccess reads a file. A secret file must not be readable by others.
func readAccess(path string, secret bool) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case secret && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s: mode %04o lets others read it; use chmod 0600 %s", path, info.Mode().Perm(), path)
	case info.Size() > maxCredentials:
		return nil, fmt.Errorf("%s: %d bytes, limit %d", path, info.Size(), maxCredentials)
	}
	return os.ReadFile(path)
}

func (a *Access) credentials(now time.Time) error {
	if a.Credentials == NoCredentials {
		return nil
	}
	text, err := readAccess(a.Credentials, true)
	if err != nil {
		return err
	}
	if err := CheckCredentials(text, now); err != nil {
		return fmt.Errorf("%s: %w", a.Credentials, err)
	}
	return nil
}

// CheckCredentials checks the content of a credentials file: a user's JWT and key.
func CheckCredentials(text []byte, now time.Time) error {
	token, err := nkeys.ParseDecoratedJWT(text)
	if err != nil {
		return fmt.Errorf("no user JWT in it: %v", err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return fmt.Errorf("no user JWT in it, which would stand between lines like \"-----BEGIN NATS USER JWT-----\": %v",
			err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return fmt.Errorf(
			"no key of a user in it, which would stand between lines like \"-----BEGIN USER NKEY SEED-----\": %v", err)
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	switch {
	case err != nil:
		return err
	case public != claims.Subject:
		return fmt.Errorf("the JWT is of user %s, and the key beside it of %s", claims.Subject, public)
	case claims.Expires != 0 && now.Unix() >= claims.Expires:
		return fmt.Errorf("the JWT has expired on %s", time.Unix(claims.Expires, 0).UTC().Format(time.DateTime))
	case claims.NotBefore > now.Unix():
		return fmt.Errorf("the JWT is not valid before %s", time.Unix(claims.NotBefore, 0).UTC().Format(time.DateTime))
	}
	return nil
}

func (a *Access) authorities(time.Time) error {
	text, err := readAccess(a.CA, false)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: no certificate in it, in PEM", a.CA)
	}
	return nil
}

func (a *Access) certificate(now time.Time) error {
	cert, err := readAccess(a.Cert, false)
	if err != nil {
		return err
	}
	key, err := readAccess(a.Key, true)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s with %s: %v", a.Cert, a.Key, err)
	}
	uses := pair.Leaf.ExtKeyUsage
	switch {
	case now.After(pair.Leaf.NotAfter), now.Before(pair.Leaf.NotBefore):
		return fmt.Errorf("%s is valid from %s to %s", a.Cert, pair.Leaf.NotBefore.UTC().Format(time.DateTime),
			pair.Leaf.NotAfter.UTC().Format(time.DateTime))
	case len(uses) > 0 && !slices.Contains(uses, x509.ExtKeyUsageClientAuth) &&
		!slices.Contains(uses, x509.ExtKeyUsageAny):
		return fmt.Errorf("%s is not a certificate of a client: its extended key usage lacks clientAuth", a.Cert)
	}
	return nil
}
