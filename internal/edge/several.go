package edge

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// maxTurn is the longest time that one of several nodes has for a request, while others are left.
const maxTurn = 4 * time.Second

// Several returns an Upstream of several nodes that are one clearinghouse: a node and its standbys. A request
// goes to the node that answered last, and to the next one if that node is unreachable, or takes no reports.
func Several(nodes ...Upstream) Upstream {
	if len(nodes) == 1 {
		return nodes[0]
	}
	return &several{nodes: nodes}
}

type several struct {
	nodes []Upstream
	at    atomic.Int32 // the node that answered last
}

// try passes the nodes to ask, beginning with the one that answered last, until ask reports that no other
// needs to be asked. The time of ctx is divided among the nodes that are left.
func (s *several) try(ctx context.Context, ask func(context.Context, Upstream) (next bool, err error)) error {
	first := s.at.Load()
	var last error
	for i := range s.nodes {
		at := (int(first) + i) % len(s.nodes)
		turn, cancel := s.turn(ctx, len(s.nodes)-i)
		next, err := ask(turn, s.nodes[at])
		cancel()
		if !next {
			s.at.CompareAndSwap(first, int32(at))
			return err
		}
		if !errors.Is(last, bulkhead.ErrReadOnly) { // a node that answers is more than one that is away
			last = err
		}
		if ctx.Err() != nil {
			// The node had all the time: the next request begins with another one.
			s.at.CompareAndSwap(first, int32((at+1)%len(s.nodes)))
			break
		}
	}
	return last
}

// turn returns the context of a request to one of n nodes that are left.
func (s *several) turn(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if n == 1 || !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, min(time.Until(deadline)/time.Duration(n), maxTurn))
}

// unsent reports whether an error means that a request did not reach the node.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// CheckBatch implements [Upstream].
func (s *several) CheckBatch(ctx context.Context, queries []bulkhead.Query) (out []client.Checked, err error) {
	err = s.try(ctx, func(ctx context.Context, u Upstream) (bool, error) {
		out, err = u.CheckBatch(ctx, queries)
		return down(err), err
	})
	return out, err
}

// ReportBatch implements [Upstream]. Reports that a node does not take at present go to the next one. A batch whose
// answer was lost goes there too, if all its reports have IDs: a report without an ID may have arrived.
func (s *several) ReportBatch(ctx context.Context, reports []bulkhead.Report) ([]client.Reported, error) {
	out := make([]client.Reported, len(reports))
	left := make([]int, len(reports)) // reports that no node has taken
	named, answered := true, false
	for i := range reports {
		left[i], named = i, named && reports[i].ID != ""
	}
	err := s.try(ctx, func(ctx context.Context, u Upstream) (bool, error) {
		batch := make([]bulkhead.Report, len(left))
		for i, n := range left {
			batch[i] = reports[n]
		}
		got, err := u.ReportBatch(ctx, batch)
		if err != nil {
			return down(err) && (named || unsent(err)) || errors.Is(err, bulkhead.ErrReadOnly), err
		}
		answered = true
		var again []int
		for i, n := range left {
			if out[n] = got[i]; errors.Is(got[i].Err, bulkhead.ErrReadOnly) {
				again = append(again, n)
			}
		}
		left = again
		return len(left) > 0, nil
	})
	if !answered {
		return nil, err
	}
	return out, nil // a report that no node has taken has the answer of the last one that answered
}

// Look implements [Upstream].
func (s *several) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look,
	what bulkhead.Aspect) error {
	return s.try(ctx, func(ctx context.Context, u Upstream) (bool, error) {
		err := u.Look(ctx, sigs, out, what)
		return down(err), err
	})
}

// Count implements [Upstream]. Counts have no ID, so they are repeated only if they cannot have arrived.
func (s *several) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	return s.try(ctx, func(ctx context.Context, u Upstream) (bool, error) {
		err := u.Count(ctx, sigs, n)
		return errors.Is(err, bulkhead.ErrReadOnly) || unsent(err), err
	})
}

// Node implements [Upstream].
func (s *several) Node(ctx context.Context) (state *admin.NodeState, err error) {
	err = s.try(ctx, func(ctx context.Context, u Upstream) (bool, error) {
		state, err = u.Node(ctx)
		return down(err), err
	})
	return state, err
}
