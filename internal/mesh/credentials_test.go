package mesh

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

// An authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	file string // its own certificate
	made int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.file = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue signs a certificate for the loopback address, and returns its file and the file of its key.
// change may modify it before.
func (a *authority) issue(name string, change func(*x509.Certificate)) (cert, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.made++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.made), Subject: pkix.Name{CommonName: name}, NotBefore: a.cert.NotBefore,
		NotAfter:    a.cert.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", secret)
}

// A tenancy is an operator of NATS servers with an account of nodes, in JWTs.
type tenancy struct {
	t                 testing.TB
	operator, account nkeys.KeyPair
	dir               string
}

func newTenancy(t testing.TB) *tenancy {
	t.Helper()
	o := &tenancy{t: t, dir: t.TempDir()}
	var err, extra error
	o.operator, err = nkeys.CreateOperator()
	o.account, extra = nkeys.CreateAccount()
	if err != nil || extra != nil {
		t.Fatal(err, extra)
	}
	return o
}

func publicOf(t testing.TB, k nkeys.KeyPair) string {
	t.Helper()
	id, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// user makes a file of credentials, as "nsc generate creds" does. change may modify the claims
// before they are signed.
func (o *tenancy) user(name string, change func(*jwt.UserClaims)) (file string) {
	o.t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		o.t.Fatal(err)
	}
	claims := jwt.NewUserClaims(publicOf(o.t, key))
	claims.Name = name
	if change != nil {
		change(claims)
	}
	token, err := claims.Encode(o.account)
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		o.t.Fatal(err)
	}
	file = filepath.Join(o.dir, name+".creds")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		o.t.Fatal(err)
	}
	return file
}

// TestAccess checks the files that a node signs in with, and the error for each fault.
func TestAccess(t *testing.T) {
	now := time.Now()
	a, o := newAuthority(t), newTenancy(t)
	cert, key := a.issue("node", nil)
	otherCert, otherKey := a.issue("other", nil)
	server, serverKey := a.issue("server", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] })
	old, oldKey := a.issue("old", func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })
	creds := o.user("node", nil)
	open := func(path string, mode os.FileMode) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "copy")
		if err := os.WriteFile(out, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(out, mode); err != nil {
			t.Fatal(err)
		}
		return out
	}
	with := func(change func(string) string) string {
		t.Helper()
		text, err := os.ReadFile(creds)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "creds")
		if err := os.WriteFile(out, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		return out
	}
	absent := filepath.Join(a.dir, "absent")
	const seedAt = "-----BEGIN USER NKEY SEED-----"
	secret := strings.Fields(strings.Split(must(t, creds), seedAt)[1])[0]
	for name, tt := range map[string]struct {
		of   natsdial.Access
		want map[string]string
	}{
		"nothing":           {natsdial.Access{}, nil},
		"no authentication": {natsdial.Access{Credentials: natsdial.NoCredentials}, nil},
		"all":               {natsdial.Access{Credentials: creds, CA: a.file, Cert: cert, Key: key}, nil},
		"nothing is there": {natsdial.Access{Credentials: absent, CA: absent, Cert: absent, Key: absent},
			map[string]string{"credentials": "no such file", "ca": "no such file", "cert": "no such file"}},
		"a key is missing": {natsdial.Access{Cert: cert, Key: absent}, map[string]string{"cert": "absent"}},
		"a folder": {natsdial.Access{Credentials: a.dir, CA: a.dir},
			map[string]string{"credentials": "not a file", "ca": "not a file"}},
		"others read it": {natsdial.Access{Credentials: open(creds, 0o640), Cert: cert, Key: open(key, 0o644)},
			map[string]string{"credentials": "mode 0640 lets others read it", "cert": "mode 0644 lets others read it"}},
		"no PEM": {natsdial.Access{CA: creds, Cert: creds, Key: key},
			map[string]string{"ca": "no certificate", "cert": "failed to find"}},
		"no credentials": {natsdial.Access{Credentials: a.file}, map[string]string{"credentials": "no user JWT"}},
		"of another user": {natsdial.Access{Credentials: with(func(s string) string {
			return strings.Split(s, seedAt)[0] + seedAt + strings.Split(must(t, o.user("x", nil)), seedAt)[1]
		})}, map[string]string{"credentials": "and the key beside it of"}},
		"without a key": {natsdial.Access{Credentials: with(func(s string) string {
			return strings.Split(s, seedAt)[0]
		})}, map[string]string{"credentials": "no key of a user"}},
		"cut off": {natsdial.Access{Credentials: with(func(s string) string {
			return s[:60]
		})}, map[string]string{"credentials": "no user JWT"}},
		"empty": {natsdial.Access{Credentials: with(func(string) string {
			return ""
		})}, map[string]string{"credentials": "no user JWT"}},
		"expired": {natsdial.Access{Credentials: o.user("late", func(c *jwt.UserClaims) {
			c.Expires = now.Add(-time.Minute).Unix()
		})}, map[string]string{"credentials": "has expired on"}},
		"not yet": {natsdial.Access{Credentials: o.user("early", func(c *jwt.UserClaims) {
			c.NotBefore = now.Add(time.Hour).Unix()
		})}, map[string]string{"credentials": "not valid before"}},
		"for some days": {natsdial.Access{Credentials: o.user("days", func(c *jwt.UserClaims) {
			c.Expires = now.Add(time.Hour).Unix()
		})}, nil},
		"another's key": {natsdial.Access{Cert: otherCert, Key: key},
			map[string]string{"cert": "private key does not match"}},
		"a server's":     {natsdial.Access{Cert: server, Key: serverKey}, map[string]string{"cert": "lacks clientAuth"}},
		"expired, a key": {natsdial.Access{Cert: old, Key: oldKey}, map[string]string{"cert": "is valid from"}},
		"one of them": {natsdial.Access{Credentials: creds, CA: absent, Cert: otherCert, Key: otherKey},
			map[string]string{"ca": "no such file"}},
		"a key for the cert": {natsdial.Access{Cert: key, Key: key}, map[string]string{"cert": "failed to find"}},
	} {
		got := tt.of.Check(now)
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(tt.want))) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		for option, want := range tt.want {
			if err := got[option]; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %s: %v, want %q", name, option, err, want)
			}
		}
	}
}

func must(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzCredentials checks that any content of a credentials file is either refused or valid.
func FuzzCredentials(f *testing.F) {
	o := newTenancy(f)
	for _, file := range []string{o.user("a", nil), o.user("b", func(c *jwt.UserClaims) { c.Expires = 1 })} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:len(text)/2])
	}
	f.Add([]byte(""))
	f.Add([]byte("-----BEGIN NATS USER JWT-----\nx.y.z\n------END NATS USER JWT------\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		now := time.Now()
		if natsdial.CheckCredentials(text, now) == nil && !strings.Contains(string(text), "SU") {
			t.Errorf("%q is taken for credentials", text)
		}
	})
}
