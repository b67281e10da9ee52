package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// A hubStub is the connection to a hub.
type hubStub struct {
	hub   *secrets
	began time.Time

	mu     sync.Mutex
	holder wire.Public // zero: not known yet
	down   bool
	err    error
	at     []time.Duration // of the requests, since the start
}

// becomes changes what the hub does.
func (h *hubStub) becomes(holder wire.Public, down bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holder, h.down, h.err = holder, down, err
}

// asked returns when the hub was asked since the last call.
func (h *hubStub) asked() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.at
	h.at = nil
	return at
}

func (h *hubStub) Name() string { return "hub.example.com" }

func (h *hubStub) Connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.down
}

func (h *hubStub) Holder() (wire.Public, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holder, h.holder != wire.Public{}
}

func (h *hubStub) Request(_ context.Context, subject string, data []byte) ([]byte, error) {
	h.mu.Lock()
	h.at = append(h.at, time.Since(h.began))
	err := h.err
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	from, ok := wire.ParseHint(strings.TrimPrefix(subject, wire.SecretPrefix))
	if !ok {
		return nil, fmt.Errorf("subject %q", subject)
	}
	return h.hub.ServeSecret(from, data), nil
}

// TestFollowSecret checks that a node asks its hub for another secret every other heartbeat, and sooner until it has
// met the hub; that it takes what the hub announces and gives up what the hub takes back; and that it logs each error
// once. A node that cannot change its secret asks no hub.
func TestFollowSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, self, fixed := newSecrets(t, Hub), newSecrets(t, Join), newSecrets(t, Join)
		self.knows(hub)
		fixed.knows(hub)
		fixed.Opts.Switch = nil
		h := &hubStub{hub: hub, down: true, began: time.Now()}
		idle := &hubStub{hub: hub, holder: hub.Opts.Identity.Public(), began: time.Now()}
		self.UseHub(h)
		fixed.UseHub(idle)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			fixed.FollowSecret(ctx)
			self.FollowSecret(ctx)
		}()
		pass := func(d time.Duration) {
			bubble.Advance(d)
			synctest.Wait() // for what wakes at that moment
		}
		beats := SecretBeats * self.Opts.Heartbeat
		asked := func(why string, want ...time.Duration) {
			t.Helper()
			if got := h.asked(); !slices.Equal(got, want) {
				t.Errorf("%s: asked after %v, want %v", why, got, want)
			}
		}
		logged := func(text string, want int) {
			t.Helper()
			if got := strings.Count(self.log.String(), text); got != want {
				t.Errorf("%q is logged %d times, want %d: %s", text, got, want, self.log)
			}
		}
		pass(3 * secretRetry)
		h.becomes(wire.Public{}, false, nil) // its key is not known yet
		pass(2 * secretRetry)
		asked("before the hub is met")
		key := hub.Opts.Identity.Public()
		h.becomes(key, false, errors.New("no answer"))
		pass(secretRetry)
		met := 6 * secretRetry
		asked("the hub is met", met)
		pass(2 * beats)
		asked("the hub does not answer", met+beats, met+2*beats)
		logged("is not known at present", 1)
		h.becomes(key, false, errors.New("another error"))
		pass(beats)
		logged("is not known at present", 2)
		h.becomes(key, false, nil)
		pass(beats)
		h.becomes(key, false, errors.New("another error"))
		pass(beats)
		logged("another error", 2) // it has answered in between
		h.becomes(key, false, nil)
		if self.Pending() != nil {
			t.Error("a secret that nobody announced")
		}
		if _, err := hub.Rotate(NewRotation{After: time.Hour}); err != nil {
			t.Fatal(err)
		}
		pass(beats)
		if r := self.Pending(); r == nil || r.To() != hub.Pending().To() || r.By != hub.Opts.Identity.ID() {
			t.Errorf("announced %+v, taken %+v", hub.Pending(), r)
		}
		if _, err := hub.CancelRotation(); err != nil {
			t.Fatal(err)
		}
		pass(beats)
		if r := self.Pending(); r != nil {
			t.Errorf("taken back, and still to come: %+v", r)
		}
		logged("is not known at present", 3)
		cancel()
		<-done
		if len(idle.asked()) > 0 {
			t.Error("a node that cannot change its secret asks for another one")
		}
	})
}
