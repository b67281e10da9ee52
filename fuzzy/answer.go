package fuzzy

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// A job is one request on its way to its answer.
type job struct {
	client netip.AddrPort
	data   []byte // the datagram; decrypted in place
	req    Request
	key    *Key       // that the request is encrypted to; nil for a plain one
	shared *sharedKey // of key and client
	reply  Reply
	silent bool // gets no answer
	update bool // is answered by Server.updateAll

	packet *door.Packet // of a pending update
	ctx    context.Context
	recent *recentEntry
	less   bool // of an update that removes only part of a weight
	err    error
}

// scratch is memory for answering a batch, reused.
type scratch struct {
	jobs      []*job
	spare     []*job
	questions questions
	checks    []pendingCheck
}

// addCheck adds a check, reusing the memory of an earlier one.
func (sc *scratch) addCheck(j *job) {
	n := len(sc.checks)
	sc.checks = slices.Grow(sc.checks, 1)[:n+1]
	c := &sc.checks[n]
	*c = pendingCheck{job: j, hits: c.hits[:0], near: c.near[:0], even: c.even[:0], evenVoted: c.evenVoted[:0],
		held: c.held[:0]}
}

// packets answers one batch of datagrams.
func (s *Server) packets(ctx context.Context, batch []*door.Packet) {
	sc := s.serving.scratch.Get().(*scratch)
	defer s.serving.scratch.Put(sc)
	for len(sc.spare) < len(batch) {
		sc.spare = append(sc.spare, new(job))
	}
	sc.jobs = sc.jobs[:0]
	for i, p := range batch {
		j := sc.spare[i]
		j.reset(p.Client, p.Data)
		sc.jobs = append(sc.jobs, j)
	}
	s.answer(ctx, sc)
	for i, p := range batch {
		j := sc.jobs[i]
		switch {
		case j.update:
			s.detach(ctx, p, j)
		case !j.silent:
			p.Reply = s.appendOut(p.Reply, j)
			s.holdBack(p)
		}
	}
	clear(sc.jobs)
}

func (j *job) reset(client netip.AddrPort, data []byte) {
	j.client, j.data, j.key, j.shared, j.recent, j.err = client, data, nil, nil, nil, nil
	j.silent, j.update = false, false
	j.reply = Reply{Extra: j.reply.Extra[:0]}
}

// detach hands an update to the writers. If they are too busy, the request is dropped:
// the client sends it again.
func (s *Server) detach(ctx context.Context, p *door.Packet, j *job) {
	u := new(job)
	*u = *j
	j.reply.Extra = nil // belongs to u now
	if !p.Detach() {
		s.seen.updates.forget(u.recent)
		return
	}
	u.packet, u.ctx = p, ctx
	select {
	case s.serving.updates <- u:
	default:
		s.seen.updates.forget(u.recent)
		p.Finish()
	}
}

// gather adds other waiting updates, up to the capacity of jobs.
func gather(jobs []*job, updates <-chan *job) []*job {
	for len(jobs) < cap(jobs) {
		select {
		case j, ok := <-updates:
			if !ok {
				return jobs
			}
			jobs = append(jobs, j)
		default:
			return jobs
		}
	}
	return jobs
}

// finishUpdates performs detached updates and sends their answers.
func (s *Server) finishUpdates(jobs []*job) {
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("updates panicked", "panic", r)
			for _, j := range jobs {
				s.seen.updates.forget(j.recent)
			}
		}
		for _, j := range jobs {
			j.packet.Finish()
		}
	}()
	s.updateAll(jobs[0].ctx, jobs)
	for _, j := range jobs {
		j.packet.Reply = s.appendOut(j.packet.Reply, j)
		s.holdBack(j.packet)
	}
}

// holdBack drops an answer that is too long for an address that has proved nothing. The client will
// ask again, which pays for the answer.
func (s *Server) holdBack(p *door.Packet) {
	addr := p.Client.Addr()
	if len(p.Reply) == 0 || addr.IsLoopback() || door.Within(s.Exempt, addr) ||
		s.seen.credit.Allow(p.Client, len(p.Data), len(p.Reply)) {
		return
	}
	s.Stats.Unanswered.Add(1)
	p.Reply = p.Reply[:0]
}

// answer answers all jobs of sc except updates, which it marks.
func (s *Server) answer(ctx context.Context, sc *scratch) {
	sc.checks = sc.checks[:0]
	for _, j := range sc.jobs {
		if err := s.read(j); err != nil {
			s.Stats.Malformed.Add(1)
			s.Log.Debug("request not read", "client", j.client, "err", err)
			j.silent = true
			continue
		}
		j.reply.Tag, j.reply.Digest = j.req.Tag, j.req.Digest
		if code := s.refusal(j); code != 0 {
			s.Stats.Refused.Add(1)
			j.refuse(code)
			continue
		}
		s.dispatch(sc, j)
	}
	if len(sc.checks) > 0 {
		s.check(ctx, sc)
	}
}

func (s *Server) dispatch(sc *scratch, j *job) {
	switch j.req.Command {
	case Check:
		s.Stats.Checks.Add(1)
		sc.addCheck(j)
	case Write, Delete:
		s.recognise(j)
	case Stat:
		s.Stats.Stat.Add(1)
		n := uint64(s.Stats.Writes.Load())
		if s.Stored != nil {
			n = s.Stored()
		}
		// Old clients read the low half, newer ones both.
		j.reply.Prob, j.reply.Flag, j.reply.Value = 1, uint32(n), int32(n>>32)
	case Ping:
		s.Stats.Ping.Add(1)
		j.reply.Prob, j.reply.Value = 1, j.req.Value
	}
}

// recognise marks an update to be done, unless it is a retransmission: then it repeats
// the answer if the update is done, or stays silent.
func (s *Server) recognise(j *job) {
	e, state := s.seen.updates.enter(j.recentID(), s.Now())
	switch state {
	case recentDone:
		s.Stats.Repeated.Add(1)
		j.accept()
	case recentBusy:
		s.Stats.Repeated.Add(1)
		j.silent = true
	default:
		j.recent, j.update = e, true
	}
}

func (j *job) accept() { j.reply.Prob, j.reply.Value, j.reply.Flag = 1, 0, uint32(j.req.Flag) }

func (j *job) refuse(code int32) {
	j.reply.Prob, j.reply.Value, j.reply.Flag = 0, code, 0
	if j.req.Version <= 4 && !j.req.LongForm && (code == CodeForbidden || code == CodeEncryption) {
		j.reply.Value = CodeRefused // the only code that old clients know
	}
}

// appendOut appends the datagram that answers j.
func (s *Server) appendOut(dst []byte, j *job) []byte {
	if j.shared == nil {
		return j.req.AppendReply(dst, &j.reply)
	}
	var plain [replySizeLong]byte
	var nonce [nonceSize]byte
	rand.Read(nonce[:])
	out, err := j.shared.seal(dst, nonce[:], j.req.AppendReply(plain[:0], &j.reply))
	if err != nil {
		s.Log.Error("reply not encrypted", "err", err)
		return dst
	}
	return out
}

// status returns the code for an error of the clearinghouse.
func (s *Server) status(err error) int32 {
	switch {
	case err == errUnlisted:
		s.Stats.Refused.Add(1)
		return CodeSkipped
	case errors.Is(err, bulkhead.ErrForbidden), errors.Is(err, bulkhead.ErrUnauthorised):
		s.Stats.Refused.Add(1)
		return CodeForbidden
	case errors.Is(err, bulkhead.ErrOverLimit):
		s.Stats.Refused.Add(1)
		return CodeRefused
	}
	s.Stats.Faults.Add(1)
	s.Log.Error("request failed", "err", err)
	return CodeInternal
}
