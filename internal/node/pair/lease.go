package pair

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/standby/lease"
)

// openLease opens the lease that the node shares with the other node of its pair, whose public key it is
// given. Without a witness, or without another node, there is none.
func (p *Pair) openLease(other string) error {
	if len(p.set.Witness) == 0 || other == "" {
		return nil
	}
	l, err := lease.Open(lease.Options{Servers: p.set.Witness, Credentials: p.set.WitnessCredentials,
		CA: p.set.WitnessCA, Own: p.key.Public(), Other: other, For: time.Duration(p.set.Lease), Log: p.log})
	if err != nil {
		return err
	}
	if p.lead.Load() != nil {
		p.hold(l)
	}
	p.lease.Store(l)
	p.leases <- l
	return nil
}

// hold makes this node want a lease for its term. With a shared journal, the second node never lacks what this one
// acknowledges.
func (p *Pair) hold(l *lease.Lease) {
	l.Hold(p.engine.Term().Number)
	if p.o.Shared {
		l.ClearBehind()
	}
}

// leaseOfPair returns the lease for a [standby.Leader].
func (p *Pair) leaseOfPair() standby.Lease {
	if l := p.lease.Load(); l != nil {
		return l
	}
	return nil
}

// RunLease renews the lease, or looks at it, until ctx ends.
func (p *Pair) RunLease(ctx context.Context) error {
	end := func() {}
	defer func() { end() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-p.leases:
			end()
			short, cancel := context.WithCancel(ctx)
			var running sync.WaitGroup
			running.Go(func() { l.Run(short) })
			end = func() {
				cancel()
				running.Wait()
			}
		}
	}
}

// takeLease makes this node the holder of the lease for a term, if the pair has a lease.
func (p *Pair) takeLease(ctx context.Context, term uint64) error {
	l := p.lease.Load()
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Duration(p.set.Lease))
	defer cancel()
	if err := l.Take(ctx, term); err != nil {
		return fmt.Errorf("%w. If the first node lives, stop it; if the witness is dead, empty [standby] witness on both "+
			"nodes", err)
	}
	return nil
}

// TakeOver takes over without a command, once the time of the first node's lease is over. It runs until ctx ends.
func (p *Pair) TakeOver(ctx context.Context) error {
	if len(p.set.Witness) == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(time.Duration(p.set.Lease) / lease.Looks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.promoted:
			<-ctx.Done() // nothing is left to take over
			return nil
		case <-tick.C:
		}
		if !p.mayTakeOver() {
			continue
		}
		p.log.Warn("the first node of the pair neither renews its lease nor answers",
			"consequence", "this node takes over")
		if err := p.takeOver(ctx, false); err != nil && ctx.Err() == nil {
			p.log.Error("this node cannot take over", "err", err)
		}
	}
}

// mayTakeOver reports whether this node should take over by itself.
func (p *Pair) mayTakeOver() bool {
	l := p.lease.Load()
	p.mu.Lock()
	f := p.follow
	p.mu.Unlock()
	return l != nil && f != nil && f.MayTakeOver(l, time.Duration(p.set.Lease))
}

// witnessState describes the lease.
func witnessState(l *lease.Lease) *admin.Witness {
	w := &admin.Witness{Holder: l.Holder(), Behind: l.Behind()}
	if err := l.Problem(); err != nil {
		w.Problem = err.Error()
	}
	return w
}
