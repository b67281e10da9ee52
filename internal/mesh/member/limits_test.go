package member

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// TestInvitationLimits checks that an invitation may be as long as the specification allows, and no longer.
func TestInvitationLimits(t *testing.T) {
	hub := func(bytes int) string { return strings.Repeat("h", bytes-len(":1")) + ":1" }
	for name, tt := range map[string]struct {
		change func(*Invitation)
		valid  bool
	}{
		"the longest name":      {func(v *Invitation) { v.Name = strings.Repeat("n", wire.MaxName) }, true},
		"the longest group":     {func(v *Invitation) { v.Group = strings.Repeat("g", wire.MaxName) }, true},
		"a group too long":      {func(v *Invitation) { v.Group = strings.Repeat("g", wire.MaxName+1) }, false},
		"the most hubs":         {func(v *Invitation) { v.Hubs = slices.Repeat([]string{"h:1"}, maxHubs) }, true},
		"too many hubs":         {func(v *Invitation) { v.Hubs = slices.Repeat([]string{"h:1"}, maxHubs+1) }, false},
		"the longest hub":       {func(v *Invitation) { v.Hubs = []string{hub(maxHub)} }, true},
		"a hub too long":        {func(v *Invitation) { v.Hubs = []string{hub(maxHub + 1)} }, false},
		"an unprintable hub":    {func(v *Invitation) { v.Hubs = []string{"h\x7f:1"} }, false},
		"a hub with a space":    {func(v *Invitation) { v.Hubs = []string{"h :1"} }, false},
		"a hub without a host":  {func(v *Invitation) { v.Hubs = []string{":1"} }, false},
		"a hub without a port":  {func(v *Invitation) { v.Hubs = []string{"h:"} }, false},
		"a hub with port 0":     {func(v *Invitation) { v.Hubs = []string{"h:0"} }, false},
		"the first second":      {func(v *Invitation) { v.Expires = time.Unix(0, 0).UTC() }, true},
		"the last second":       {func(v *Invitation) { v.Expires = time.Unix(1<<40, 0).UTC() }, true},
		"after the last second": {func(v *Invitation) { v.Expires = time.Unix(1<<40+1, 0).UTC() }, false},
	} {
		v := sampleInvitation(t)
		tt.change(v)
		text, err := v.Line()
		if !tt.valid {
			if !errors.Is(err, ErrInvitation) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if again, bad := ParseInvitation(text); err != nil || bad != nil || again.Name != v.Name || again.Group != v.Group ||
			strings.Join(again.Hubs, " ") != strings.Join(v.Hubs, " ") || !again.Expires.Equal(v.Expires) {
			t.Errorf("%s: %v, %v: %+v", name, err, bad, again)
		}
	}
	text := line(t, sampleInvitation(t))
	text += strings.Repeat(" ", maxLine-len(text))
	if _, err := ParseInvitation(text); err != nil {
		t.Errorf("%d characters: %v", len(text), err)
	}
	if _, err := ParseInvitation(text + " "); !errors.Is(err, ErrInvitation) {
		t.Errorf("%d characters: %v", len(text)+1, err)
	}
}

// TestMessageLimits checks that each message between nodes about invitations, groups and secrets may be as long as
// the limit, and no longer.
func TestMessageLimits(t *testing.T) {
	hub, self := newSecrets(t, Hub), newSecrets(t, Join)
	key := hub.Opts.Identity.Public()
	self.knows(hub)
	if _, err := hub.Rotate(NewRotation{After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	v := sampleInvitation(t)
	box, private, err := SealRequest(v, self.Opts.Identity, "bob", v.Expires)
	if err != nil {
		t.Fatal(err)
	}
	requestKey := PairKey(v.Secret, nil, "request")
	request, err := unseal(requestKey, box, v.ID())
	if err != nil {
		t.Fatal(err)
	}
	q, _, err := OpenRequest(v.Secret, v.ID(), box)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := sealReply(v.Secret, v.ID(), &q, &pairReply{State: PairWaiting})
	if err != nil {
		t.Fatal(err)
	}
	question, exchange, err := self.AskAfter(key)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	keeper := &Peer{ID: key.ID(), Key: key, Group: "g"}
	group := GroupList{Group: "g", To: self.Opts.Identity.ID(), At: self.Opts.Now().UTC(), Members: []Member{}}
	text, err := group.Text()
	if err != nil {
		t.Fatal(err)
	}
	group.Signature = hub.Opts.Identity.Sign(text)
	list, err := json.Marshal(group)
	if err != nil {
		t.Fatal(err)
	}
	peer := &Peer{ID: self.Opts.Identity.ID(), Key: self.Opts.Identity.Public()}
	const sealed = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
	for name, tt := range map[string]struct {
		data []byte
		over int // bytes that sealing adds
		read func(data []byte) error
	}{
		"a request to join": {request, sealed, func(data []byte) error {
			_, _, err := OpenRequest(v.Secret, v.ID(), Seal(requestKey, data, v.ID()))
			return err
		}},
		"the reply to it": {reply, 0, func(data []byte) error {
			_, err := openReply(v, private, self.Opts.Identity.ID(), data)
			return err
		}},
		"a question for a secret": {asked, 0, func(data []byte) error {
			_, _, err := hub.MakeAnswer(peer, data)
			return err
		}},
		"the answer to it": {hub.ServeSecret(self.Opts.Identity.Hint(), asked), 0, func(data []byte) error {
			n, err := self.OpenSecret(key, question, exchange, data)
			if err == nil && n == nil {
				err = errors.New("no secret")
			}
			return err
		}},
		"the list of a group": {list, 0, func(data []byte) error {
			_, err := NewGroups(self.Opts, self.book).OpenGroup(keeper, data)
			return err
		}},
	} {
		longest := append(tt.data, bytes.Repeat([]byte(" "), MaxPair-tt.over-len(tt.data))...)
		if err := tt.read(longest); err != nil {
			t.Errorf("%s of %d bytes: %v", name, MaxPair, err)
		}
		if err := tt.read(append(longest, ' ')); err == nil {
			t.Errorf("%s of %d bytes is read", name, MaxPair+1)
		}
	}
}

// A secrets is the part of a node that changes the network's secret.
type secrets struct {
	*Secrets
	log *logtest.Log
}

// newSecrets returns a node in a mode that can change its secret.
func newSecrets(t *testing.T, mode Mode) *secrets {
	t.Helper()
	log := new(logtest.Log)
	o := &Options{Dir: t.TempDir(), Identity: newIdentityOf(t), Mode: mode, Now: time.Now, Heartbeat: 30 * time.Second,
		Secret: enginetest.Secret, KeyID: enginetest.Secret.ID(), Log: log.Logger(),
		Switch: func(filter.Secret) {}}
	b, err := OpenBook(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenSecrets(o, b)
	if err != nil {
		t.Fatal(err)
	}
	return &secrets{c, log}
}

// knows makes two nodes peers.
func (c *secrets) knows(other *secrets) {
	for a, b := range map[*secrets]*secrets{c: other, other: c} {
		key := b.Opts.Identity.Public()
		a.book.Members[key.Hint()] = &Entry{Peer: Peer{ID: key.ID(), Key: key, Weight: 1}, Stats: newStats()}
	}
}
