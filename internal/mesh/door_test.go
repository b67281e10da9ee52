package mesh

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// closed returns a mesh without a connection.
func closed(t *testing.T, change func(*member.Options)) *Mesh {
	t.Helper()
	dir, id := meshtest.Folder(t)
	o := member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), KeyID: enginetest.Secret.ID(),
		Mode: member.Join}
	if change != nil {
		change(&o)
	}
	m, err := prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMistakenOptions checks that options that cannot work are refused before anything runs.
func TestMistakenOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*member.Options)
		want   string
	}{
		"folder":         {func(o *member.Options) { o.Dir = "" }, "required"},
		"identity":       {func(o *member.Options) { o.Identity = nil }, "required"},
		"engine":         {func(o *member.Options) { o.Engine = nil }, "required"},
		"role":           {func(o *member.Options) { o.Role = "all" }, `"all"`},
		"mode":           {func(o *member.Options) { o.Mode = "star" }, `"star"`},
		"no hub":         {func(o *member.Options) { o.Servers = nil }, "address of a hub"},
		"no port":        {func(o *member.Options) { o.Servers = []string{"hub.example.com"} }, "host:port"},
		"no server":      {func(o *member.Options) { o.Mode, o.Servers = member.External, nil }, "URL"},
		"listen":         {func(o *member.Options) { o.Mode, o.Listen = member.Hub, "127.0.0.1" }, "host:port"},
		"port by name":   {func(o *member.Options) { o.Mode, o.Listen = member.Hub, "127.0.0.1:nats" }, "host:port"},
		"port too large": {func(o *member.Options) { o.Mode, o.Listen = member.Hub, "127.0.0.1:65536" }, "host:port"},
		"broker's folder": {func(o *member.Options) {
			o.Mode, o.Listen = member.Hub, "127.0.0.1:0"
			if err := os.WriteFile(filepath.Join(o.Dir, bus.HubFolder), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "mkdir"},
		"credentials": {func(o *member.Options) {
			o.Mode, o.Credentials = member.External, filepath.Join(t.TempDir(),
				"none")
		}, "none"},
		"authorities": {func(o *member.Options) { o.Mode, o.CA = member.External, filepath.Join(t.TempDir(), "none") },
			"none"},
	} {
		dir, id := meshtest.Folder(t)
		o := member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), KeyID: 1, Mode: member.Join,
			Servers: []string{"nats://127.0.0.1:1"}}
		tt.change(&o)
		if m, err := Open(t.Context(), o); err == nil || m != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error that names %s", name, err, tt.want)
		}
	}
	for _, role := range []member.Role{"", member.Both, member.Subscribe, member.Publish} {
		o := closed(t, func(o *member.Options) { o.Role = role }).opts
		if role == "" {
			role = member.Both
		}
		if o.Role != role || o.Interval != 1500*time.Millisecond || o.Heartbeat != 30*time.Second ||
			o.StreamAge != 72*time.Hour || o.StreamBytes != 1<<30 ||
			o.MaxAdds != 1e6 || o.MaxListings != 1e5 || o.Replicas != 1 || o.Now == nil || o.Log == nil {
			t.Errorf("role %q: %+v", role, o)
		}
	}
}

// TestDamagedFiles checks that a damaged file of the mesh is reported, unless nothing is lost with
// it.
func TestDamagedFiles(t *testing.T) {
	old, to := meshtest.Rotated(t)
	good := member.SuccessionJSON{Old: old.ID(), New: to.ID(), Signature: to.Proof().Signature[:]}
	for name, tt := range map[string]struct {
		file string
		text func() []byte
		ok   bool
	}{
		"key":                  {member.KeyFile, func() []byte { return []byte("UABC\n") }, false},
		"successor":            {member.SuccessorFile, func() []byte { return []byte("{") }, false},
		"successor of another": {member.SuccessorFile, func() []byte { return encoded(t, good) }, true},
		"state":                {member.StateFile, func() []byte { return []byte("{") }, false},
		"peers":                {member.PeersFile, func() []byte { return []byte("{") }, false},
		"invitations":          {member.InvitationsFile, func() []byte { return []byte("{") }, false},
		"rotation":             {member.RotationFile, func() []byte { return []byte("{") }, false},
		"heard":                {replica.HeardFile, func() []byte { return []byte("{") }, true},
		"heard of a stranger": {replica.HeardFile, func() []byte {
			return encoded(t, []replica.Heard{{Key: old.ID()},
				{Key: "nobody"}})
		},
			true},
	} {
		dir, _ := meshtest.Folder(t)
		if err := os.WriteFile(filepath.Join(dir, tt.file), tt.text(), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := member.OpenIdentity(dir)
		if err == nil {
			if id.Predecessor() != "" {
				t.Errorf("%s: the key has taken the place of %s", name, id.Predecessor())
			}
			_, err = prepare(t.Context(), member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), KeyID: 1,
				Mode: member.Join})
		}
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, change := range []func(*member.SuccessionJSON){
		func(s *member.SuccessionJSON) { s.Old = "U" },
		func(s *member.SuccessionJSON) { s.Signature = s.Signature[1:] },
	} {
		dir, _ := meshtest.Folder(t)
		_, to, err := member.RotateIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		bad := member.SuccessionJSON{Old: old.ID(), New: to.ID(), Signature: to.Proof().Signature[:]}
		change(&bad)
		if err := os.WriteFile(filepath.Join(dir, member.SuccessorFile), encoded(t, bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := member.OpenIdentity(dir); err == nil {
			t.Errorf("a damaged proof is taken: %v", id)
		}
	}
}

func encoded(t *testing.T, x any) []byte {
	t.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCertificate checks that a hub is identified only by the key in its certificate, or by the key
// that signed this one.
func TestCertificate(t *testing.T) {
	_, id := meshtest.Folder(t)
	old, to := meshtest.Rotated(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, foreign, foreign, other.Public(), other)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	show := func(id *member.Identity, change func(*x509.Certificate)) tls.ConnectionState {
		c, err := id.Certificate(now)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil ||
			cert.Subject.CommonName != id.ID() {
			t.Errorf("%v, of %v", err, cert.Subject)
		}
		if cert.NotBefore.After(now.Add(-time.Hour)) || cert.NotAfter.Before(now.AddDate(10, 0, 0)) {
			t.Errorf("valid from %v to %v at %v", cert.NotBefore, cert.NotAfter, now)
		}
		if change != nil {
			change(cert)
		}
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	otherCert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		peers []*member.Identity
		state tls.ConnectionState
		want  string
	}{
		"a peer":                  {[]*member.Identity{id}, show(id, nil), ""},
		"a stranger":              {[]*member.Identity{old}, show(id, nil), "not on the list of peers"},
		"a new key":               {[]*member.Identity{old}, show(to, nil), ""},
		"a new key of a stranger": {[]*member.Identity{id}, show(to, nil), "not on the list of peers"},
		"a new key, without proof": {[]*member.Identity{old}, show(to, func(c *x509.Certificate) {
			c.Subject.Organization = nil
		}), "not on the list of peers"},
		"a new key, proof twice": {[]*member.Identity{old}, show(to, func(c *x509.Certificate) {
			c.Subject.Organization = append(c.Subject.Organization, c.Subject.Organization...)
		}), "not on the list of peers"},
		"the proof of another": {[]*member.Identity{old},
			show(id, func(c *x509.Certificate) { c.Subject.Organization = []string{to.Proof().Text()} }),
			"not on the list of peers"},
		"no certificate": {[]*member.Identity{id}, tls.ConnectionState{}, "no certificate"},
		"another kind of key": {[]*member.Identity{id}, tls.ConnectionState{PeerCertificates: []*x509.Certificate{otherCert}},
			"does not belong to a node"},
	} {
		m := closed(t, nil)
		for _, p := range tt.peers {
			if err := m.AddPeer(t.Context(), p.ID(), "", 1); err != nil {
				t.Fatal(err)
			}
		}
		_, err := bus.HubIsPeer(m, tt.state)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if name == "a new key" {
			if list := m.Status().Peers; len(list) != 1 || list[0].ID != to.ID() {
				t.Errorf("the new key has not taken the place of the old one: %+v", list)
			}
		}
	}
}

// TestSignIn checks that a node signs the nonce of a broker, and nothing that could be a message.
func TestSignIn(t *testing.T) {
	_, to := meshtest.Rotated(t)
	for _, id := range []*member.Identity{to, closed(t, nil).opts.Identity} {
		m := closed(t, func(o *member.Options) { o.Identity = id })
		var o nats.Options
		if err := bus.SignInOf(m.opts.Identity)(&o); err != nil || o.Nkey != id.ID() ||
			(o.Token != "") != (id.Proof() != nil) {
			t.Fatalf("%v, key %s, token %q", err, o.Nkey, o.Token)
		}
		if s := wire.ParseSuccession(o.Token); id.Proof() != nil && (s == nil || *s != *id.Proof()) {
			t.Errorf("proof %+v, want %+v", s, id.Proof())
		}
		for _, tt := range []struct {
			nonce string
			ok    bool
		}{{"abcXYZ019-_", true}, {"!", true}, {"~", true}, {"a b", false}, {"a\x7f", false}, {"\x00", false},
			{"ab\xff", false}, {"bulkhead mesh message v2\x00x", false}} {
			sig, err := o.SignatureCB([]byte(tt.nonce))
			if (err == nil) != tt.ok || tt.ok != ed25519.Verify(idKey(id), []byte(tt.nonce), pad(sig)) {
				t.Errorf("%q: %v", tt.nonce, err)
			}
		}
	}
}

func pad(sig []byte) []byte {
	return append(sig, make([]byte, ed25519.SignatureSize)...)[:ed25519.SignatureSize]
}

// TestPermissions checks that a peer publishes under its own name and reads only messages to all
// nodes or to it.
func TestPermissions(t *testing.T) {
	_, a := meshtest.Folder(t)
	_, b := meshtest.Folder(t)
	m := closed(t, nil)
	p := bus.Doorkeeper{Opts: m.busOptions(), Gate: m}.Permissions(a.Hint())
	mine, theirs := a.Hint().String(), b.Hint().String()
	for _, subject := range p.Publish.Allow {
		if strings.Contains(subject, theirs) || !strings.Contains(subject, mine) && !strings.HasPrefix(subject, "$JS.API.") {
			t.Errorf("may publish %s", subject)
		}
		if strings.HasPrefix(subject, "$JS.API.STREAM.") && !strings.HasPrefix(subject, "$JS.API.STREAM.INFO.") {
			t.Errorf("may change a stream: %s", subject)
		}
	}
	q := bus.Doorkeeper{Opts: m.busOptions(), Gate: m}.Permissions(b.Hint())
	if slices.Equal(p.Publish.Allow, q.Publish.Allow) || slices.Equal(p.Subscribe.Allow, q.Subscribe.Allow) {
		t.Error("two peers may the same")
	}
	own := func(list []string, h string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, h) })
	}
	if !own(p.Publish.Allow, mine) || own(p.Subscribe.Allow, theirs) || !own(p.Subscribe.Allow, mine) {
		t.Errorf("%v, %v", p.Publish.Allow, p.Subscribe.Allow)
	}
}

// TestSuccessionText checks that the proof of a change of keys is one key and one signature.
func TestSuccessionText(t *testing.T) {
	_, to := meshtest.Rotated(t)
	raw, err := base64.RawURLEncoding.DecodeString(to.Proof().Text())
	if err != nil {
		t.Fatal(err)
	}
	if !to.Proof().Names(to.Public()) {
		t.Error("the old key did not choose the new one")
	}
	_, third := meshtest.Folder(t)
	if to.Proof().Names(third.Public()) {
		t.Error("the old key chose any")
	}
	for _, bad := range [][]byte{nil, raw[1:], append(bytes.Clone(raw), 0)} {
		if s := wire.ParseSuccession(base64.RawURLEncoding.EncodeToString(bad)); s != nil {
			t.Errorf("%d bytes are a proof", len(bad))
		}
	}
	if wire.ParseSuccession("?") != nil || (*wire.Succession)(nil).Text() != "" {
		t.Error("nothing is a proof")
	}
	m := closed(t, nil)
	if m.Known(to.Public(), to.Proof().Text()) {
		t.Error("a stranger's successor is known")
	}
}

// TestBadAddress checks that an invalid address of a hub is reported, whatever the state of the
// other hubs.
func TestBadAddress(t *testing.T) {
	dir, id := meshtest.Folder(t)
	o := member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), KeyID: 1, Mode: member.Join,
		Servers: []string{"a b:1"}}
	if m, err := Open(t.Context(), o); err == nil || m != nil || !strings.Contains(err.Error(), "broker") {
		t.Errorf("opened: %v", err)
	}
	o.Mode, o.Servers, o.Credentials = member.External, []string{"nats://a b:1"}, natsdial.NoCredentials
	if m, err := Open(t.Context(), o); err == nil || m != nil {
		t.Errorf("opened: %v", err)
	}
}

// A deafBus cannot listen.
type deafBus struct{ transport }

var errDeaf = errors.New("deaf")

func (deafBus) Listen(wire.Hint, bool, func(wire.Arrival)) error { return errDeaf }

// TestDeaf checks that a mesh whose bus cannot listen does not run.
func TestDeaf(t *testing.T) {
	m := closed(t, nil)
	m.buses = []transport{deafBus{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); !errors.Is(err, errDeaf) {
		t.Errorf("%v, want %v", err, errDeaf)
	}
}

// TestFolderState checks what a mesh folder reveals of a node that does not run: whether it has shared, and whether it
// takes its arrays back. A damaged file does not hide a recovery.
func TestFolderState(t *testing.T) {
	dir := t.TempDir()
	want := func(when string, shared, recovering bool) {
		t.Helper()
		if a, b := Shared(dir), Recovering(dir); a != shared || b != recovering {
			t.Errorf("%s: shared %v, recovering %v; want %v, %v", when, a, b, shared, recovering)
		}
	}
	want("a new node", false, false)
	if err := (&member.Record{Incarnation: 1}).Save(dir); err != nil {
		t.Fatal(err)
	}
	want("a node that has shared", true, false)
	if _, err := WantRecovery(dir, false); err != nil {
		t.Fatal(err)
	}
	want("a node to be recovered", true, true)
	for _, file := range []string{member.StateFile, member.RecoveryFile} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want("damaged files", false, true)
}

// TestNoMesh checks that an absent mesh takes no announcements, and that a mesh takes them for its own secrets.
func TestNoMesh(t *testing.T) {
	if s := (*Mesh)(nil).Announcements(); s != nil {
		t.Errorf("an absent mesh has %+v", s)
	}
	if m := closed(t, nil); m.Announcements() != m.Secrets {
		t.Error("a mesh takes the announcements for other secrets")
	}
}
