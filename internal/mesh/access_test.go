package mesh

import (
	"crypto/tls"
	"encoding/base64"
	"net"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A visitor is a client that connects to a broker.
type visitor struct {
	server.ClientAuthentication
	opts  server.ClientOpts
	nonce []byte
	users []*server.User
}

func (v *visitor) GetOpts() *server.ClientOpts                 { return &v.opts }
func (v *visitor) GetNonce() []byte                            { return v.nonce }
func (v *visitor) GetTLSConnectionState() *tls.ConnectionState { return nil }
func (v *visitor) RemoteAddress() net.Addr                     { return &net.TCPAddr{} }
func (v *visitor) RegisterUser(u *server.User)                 { v.users = append(v.users, u) }

// TestDoorkeeper checks the rights of clients. A client that signs the broker's nonce with the
// node's own key may do everything; with a peer's key, what a peer may; with an invitation, ask to
// join. All others are refused.
func TestDoorkeeper(t *testing.T) {
	h := newHost(t)
	v := h.invite(t, member.NewInvitation{})
	_, friend := meshtest.Folder(t)
	_, stranger := meshtest.Folder(t)
	if err := h.AddPeer(t.Context(), friend.ID(), "", 1); err != nil {
		t.Fatal(err)
	}
	nonce := []byte("a nonce of the broker")
	for name, tt := range map[string]struct {
		by     *member.Identity
		change func(*visitor)
		in     bool
		may    []string // publish; nil: everything
	}{
		"the node itself": {h.opts.Identity, nil, true, nil},
		"a peer": {friend, nil, true, bus.Doorkeeper{Opts: h.busOptions(),
			Gate: h.Mesh}.Permissions(friend.Hint()).Publish.Allow},
		"an invited node": {stranger, func(v2 *visitor) {
			v2.opts.Token = bus.TokenInvitation + v.ID()
		}, true, []string{bus.PairSubject(v.ID(), stranger.Hint())}},
		"a stranger":         {stranger, nil, false, nil},
		"another invitation": {stranger, func(v2 *visitor) { v2.opts.Token = bus.TokenInvitation + "x" }, false, nil},
		"no key":             {friend, func(v *visitor) { v.opts.Nkey = "" }, false, nil},
		"another's key":      {stranger, func(v *visitor) { v.opts.Nkey = friend.ID() }, false, nil},
		"the node's key":     {stranger, func(v *visitor) { v.opts.Nkey = h.opts.Identity.ID() }, false, nil},
		"no signature":       {friend, func(v *visitor) { v.opts.Sig = "" }, false, nil},
		"no text of one":     {friend, func(v *visitor) { v.opts.Sig = "!" + v.opts.Sig[1:] }, false, nil},
		"more than one":      {friend, func(v *visitor) { v.opts.Sig += "!" }, false, nil},
		"of another nonce":   {friend, func(v *visitor) { v.nonce = []byte("another nonce") }, false, nil},
	} {
		c := &visitor{nonce: nonce,
			opts: server.ClientOpts{Nkey: tt.by.ID(),
				Sig: base64.RawURLEncoding.EncodeToString(tt.by.Sign(nonce))}}
		if tt.change != nil {
			tt.change(c)
		}
		before := h.Status().Strangers[bus.ReasonDoor]
		if got := (bus.Doorkeeper{Opts: h.busOptions(), Gate: h.Mesh}).Check(c); got != tt.in || got != (len(c.users) == 1) {
			t.Errorf("%s: let in %v, as %v; want %v", name, got, c.users, tt.in)
			continue
		}
		if counted := h.Status().Strangers[bus.ReasonDoor] - before; counted != 0 &&
			(tt.in || name != "a stranger" && name != "another invitation") {
			t.Errorf("%s: counted as a stranger", name)
		} else if counted != 1 && name == "a stranger" {
			t.Errorf("%s: counted %d times", name, counted)
		}
		if !tt.in {
			continue
		}
		u := c.users[0]
		if u.Username != c.opts.Nkey || (u.Permissions == nil) != (tt.may == nil) {
			t.Errorf("%s: %+v", name, u)
			continue
		}
		if p := u.Permissions; p != nil &&
			(!slices.Equal(p.Publish.Allow, tt.may) || !slices.Contains(p.Subscribe.Allow, bus.Inbox(tt.by.Hint())+".>")) {
			t.Errorf("%s: may publish %v, hear %v", name, p.Publish.Allow, p.Subscribe.Allow)
		}
		if p := u.Permissions; p != nil && name != "a peer" && len(p.Subscribe.Allow) != 1 {
			t.Errorf("%s: may hear %v", name, p.Subscribe.Allow)
		}
	}
}
