package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

var (
	errAway  = errors.New("the upstream is unreachable")
	errNoMap = errors.New("the map of the shards is not known yet")
)

// down reports whether an error means that the upstream is currently unusable, rather than that it
// refused a request.
func down(err error) bool {
	var p *client.Problem
	switch {
	case err == nil:
		return false
	case errors.As(err, &p):
		// A refused token is the edge's fault, not its client's.
		return p.Status == http.StatusUnauthorized || p.Status >= 500 && !errors.Is(err, bulkhead.ErrReadOnly)
	}
	return !errors.Is(err, bulkhead.ErrMalformed) && !errors.Is(err, bulkhead.ErrOverLimit)
}

// health is the state of the upstream. While it is unreachable, one request in each probeEvery
// tries it; other requests fail without waiting.
type health struct {
	log *slog.Logger
	now func() time.Time

	back chan struct{} // signalled when the upstream is reachable again

	mu    sync.Mutex
	since time.Time // when it became unreachable; zero while it is reachable
	probe time.Time // when to try again
	turns int       // number of changes of this state
}

// A turn is the state of the upstream when a request was sent.
type turn int

func (h *health) away() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.since.IsZero()
}

// mayAsk reports whether a request may be sent now.
func (h *health) mayAsk() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return true
	}
	now := h.now()
	if now.Before(h.probe) {
		return false
	}
	h.probe = now.Add(probeEvery)
	return true
}

// readyFor is how long the outcome of a request stands for the next question.
const readyFor = time.Second

// A readiness asks the upstream on behalf of a load balancer.
type readiness struct {
	mu  sync.Mutex // held while the upstream is asked
	at  time.Time
	err error
}

// Ready returns nil if an upstream answers, and else an error with the reason. It asks at most once in a second.
func (e *Edge) Ready(ctx context.Context) error {
	r := &e.ready
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := e.o.Now(); r.at.IsZero() || now.Sub(r.at).Abs() >= readyFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Timeout)
		defer cancel()
		r.err = e.anyAnswers(ctx)
		r.at = e.o.Now()
	}
	return r.err
}

// anyAnswers returns nil if an upstream answers. It asks one that is not known to be away, and then all others at once.
func (e *Edge) anyAnswers(ctx context.Context) error {
	var all, gone []*target
	for _, t := range e.current().all {
		if t.health.away() {
			gone = append(gone, t)
		} else {
			all = append(all, t)
		}
	}
	all = append(all, gone...)
	err := errNoMap
	for len(all) > 0 {
		n := 1
		if err != errNoMap {
			n = len(all) // the first one did not answer
		}
		outcome := make(chan error, n)
		for _, t := range all[:n] {
			go func() { outcome <- t.answers(ctx) }()
		}
		answered := false
		for range n { // all of them: the end of ctx would make the others look away
			if one := <-outcome; one == nil {
				answered = true
			} else {
				err = one
			}
		}
		if answered {
			return nil
		}
		all = all[n:]
	}
	return err
}

// answers asks for the state of the node.
func (t *target) answers(ctx context.Context) error {
	at := t.health.sent()
	_, err := t.up.Node(ctx)
	t.health.note(at, err)
	if down(err) {
		return fmt.Errorf("the upstream does not answer: %w", err)
	}
	return nil
}

// sent returns the present turn, which [health.note] needs when a request that is sent now has
// ended.
func (h *health) sent() turn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return turn(h.turns)
}

// note records the outcome of a request, and logs changes. It ignores a request that was sent
// before the last change: its late end, in success or failure, must not revert the state.
func (h *health) note(at turn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at != turn(h.turns) {
		return
	}
	switch gone := down(err); {
	case gone && h.since.IsZero():
		h.turns++
		h.since = h.now()
		h.probe = h.since.Add(probeEvery)
		h.log.Error("the upstream is unreachable", "err", err,
			"consequence", "checks are answered \"unknown\", and reports wait in the spool or are refused temporarily")
	case !gone && !h.since.IsZero():
		h.log.Info("the upstream is reachable again", "away", h.now().Sub(h.since).Round(time.Millisecond).String())
		h.turns++
		h.since = time.Time{}
		select {
		case h.back <- struct{}{}:
		default: // the receiver reads the current state
		}
	}
}
