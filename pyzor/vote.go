package pyzor

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// A ballot holds votes of one reporter that arrived together. They are counted in one call, and one
// write makes them durable.
type ballot struct {
	report  bulkhead.Report
	often   map[bulkhead.Signature]uint32 // digests that one request repeats
	packets []*door.Packet
	threads [][]byte               // within the packets
	digests [][]bulkhead.Signature // of each packet
	trusted bool                   // the reporter has signed
}

// maxBallot is the most digests of a ballot.
const maxBallot = 512

// vote adds a report or a whitelisting to a ballot of the batch.
func (s *Server) vote(b *batch, p *door.Packet, r *Request, op Op) {
	once, often := distinct(r.Digests)
	if len(once) == 0 && len(often) == 0 {
		if slices.ContainsFunc(r.Digests, isEmpty) {
			s.refuse(p, r, errUnlisted)
		} else {
			// The original server accepts any digest: the answer is as if this one had been
			// counted.
			p.Reply = append(appendHead(p.Reply, 200, "OK", r.Thread), '\n')
		}
		return
	}
	if !p.Detach() {
		s.Stats.Busy.Add(1)
		return
	}
	r.handedOn = true
	vote := bulkhead.Spam
	if op == OpWhitelist {
		vote = bulkhead.Ham
	}
	box := b.ballot(r.reporter(p.Client), vote, once, often)
	box.trusted = r.authentic
	box.packets = append(box.packets, p)
	box.threads = append(box.threads, r.Thread)
	box.digests = append(box.digests, slices.AppendSeq(slices.Clone(once), maps.Keys(often)))
}

// isEmpty reports whether d is the digest of empty text.
func isEmpty(d []byte) bool {
	sig, ok := ParseDigest(d)
	return ok && empty(&sig)
}

// ballot returns a ballot of the batch with digests added. A ballot does not take a
// digest that it already has, because a second vote is a separate one.
func (b *batch) ballot(who bulkhead.Reporter, vote bulkhead.Vote, once []bulkhead.Signature,
	often map[bulkhead.Signature]uint32) *ballot {
	if len(often) == 0 {
		for _, box := range b.ballots {
			if box.takes(who, vote, once) {
				box.report.Signatures = append(box.report.Signatures, once...)
				return box
			}
		}
	}
	box := &ballot{often: often, report: bulkhead.Report{Signatures: once, Vote: vote, Reporter: who}}
	b.ballots = append(b.ballots, box)
	return box
}

func (v *ballot) takes(who bulkhead.Reporter, vote bulkhead.Vote, sigs []bulkhead.Signature) bool {
	if len(v.often) > 0 || v.report.Vote != vote || v.report.Reporter != who ||
		len(v.report.Signatures)+len(sigs) > maxBallot {
		return false
	}
	return !slices.ContainsFunc(sigs, func(sig bulkhead.Signature) bool {
		return slices.Contains(v.report.Signatures, sig)
	})
}

// cast counts the ballots of a batch concurrently, and answers when they are durable.
func (s *Server) cast(ctx context.Context, b *batch) {
	for i, box := range b.ballots {
		b.ballots[i] = nil
		s.voting.Go(func() {
			unlisted, err := s.count(ctx, box)
			code, diag := s.status("vote", err)
			for i, p := range box.packets {
				code, diag := code, diag
				if err == nil && subset(box.digests[i], unlisted) {
					code, diag = s.status("vote", errUnlisted)
				}
				p.Reply = append(appendHead(p.Reply, code, diag, box.threads[i]), '\n')
				s.holdBack(p, box.trusted)
				p.Finish()
			}
		})
	}
	b.ballots = b.ballots[:0]
}

// distinct separates digests that count into digests that occur once and, with their number,
// digests that occur more often.
func distinct(digests [][]byte) (once []bulkhead.Signature, often map[bulkhead.Signature]uint32) {
	for _, d := range digests {
		sig, ok := ParseDigest(d)
		if !ok || empty(&sig) {
			continue
		}
		if n, ok := often[sig]; ok {
			often[sig] = n + 1
		} else if i := slices.Index(once, sig); i >= 0 {
			if often == nil {
				often = make(map[bulkhead.Signature]uint32)
			}
			often[sig] = 2
			once = slices.Delete(once, i, i+1)
		} else {
			once = append(once, sig)
		}
	}
	return once, often
}

// subset reports whether a longer list contains all of sigs.
func subset(sigs, of []bulkhead.Signature) bool {
	return !slices.ContainsFunc(sigs, func(sig bulkhead.Signature) bool { return !slices.Contains(of, sig) })
}

// count reports a ballot, and returns its digests that may not be listed. A panic of the
// clearinghouse loses only its answers.
func (s *Server) count(ctx context.Context, box *ballot) (unlisted []bulkhead.Signature, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pyzor: vote panicked: %v\n%s", r, debug.Stack())
		}
	}()
	counter := &s.Stats.Reports
	if box.report.Vote == bulkhead.Ham {
		counter = &s.Stats.Whitelists
	}
	cast := func(r *bulkhead.Report, each uint32) error {
		receipt, err := s.Clearinghouse.Report(ctx, *r)
		if err != nil {
			return err
		}
		refused, err := bulkhead.Refusals(ctx, s.Clearinghouse, r, &receipt)
		unlisted = append(unlisted, refused...)
		counter.Add(int64(each) * int64(len(r.Signatures)-len(refused)))
		return err
	}
	if len(box.report.Signatures) > 0 {
		if err := cast(&box.report, 1); err != nil {
			return nil, err
		}
	}
	for sig, n := range box.often {
		r := box.report
		r.Signatures, r.Count = []bulkhead.Signature{sig}, n
		if err := cast(&r, n); err != nil {
			return nil, err
		}
	}
	return unlisted, nil
}
