package milter

import (
	"encoding/binary"
	"fmt"
)

// carryOut appends the changes and the reply for the policy's action.
func (k *session) carryOut(f *findings) {
	s := k.server
	if f.trapped > 0 && f.trapped == len(k.msg.recipients) && s.DiscardTrapped {
		k.out = append(k.out, packetDiscard...)
		return
	}
	policy, class, action := s.setup.policies.Load().decide(k.msg.recipients, f)
	reason := plain(f.reason(class))
	s.Stats.count(class, action)
	s.Log.Info("message judged", "queue_id", k.msg.queueID, "class", string(class), "action", string(action),
		"client", k.client.addr, "recipients", len(k.msg.recipients), "reason", reason)
	switch action {
	case Reject:
		k.out = append(k.out, smtpReply("550 5.7.1", policy.reply(class, reason))...)
		return
	case Tempfail:
		k.out = append(k.out, smtpReply("451 4.7.1", policy.reply(class, reason))...)
		return
	}
	k.cleanForged()
	if action != None && k.opts.actions&actAddHeaders != 0 {
		k.insertHeader(HeaderResults, f.results(s.Host, class))
		k.insertHeader(HeaderClass, string(class))
	}
	if action == Quarantine {
		k.msg.held = fmt.Sprintf("%s: %s", class, reason)
	}
	k.accept()
}

func smtpReply(code, text string) []byte {
	return appendPacket(nil, replyCode, []byte(code+" "+plain(text)), nul)
}

// quarantine holds the message if the mail server can; otherwise it passes with its
// headers.
func (k *session) quarantine(reason string) {
	if k.opts.actions&actQuarantine == 0 {
		k.server.Log.Warn("mail server cannot quarantine", "queue_id", k.msg.queueID,
			"consequence", "the message passes")
		return
	}
	k.out = appendPacket(k.out, replyQuarantine, []byte(plain(reason)), nul)
}

// insertHeader puts a header at the top of the message.
func (k *session) insertHeader(name, value string) {
	if k.opts.steps&headerSpace != 0 {
		value = " " + value // the mail server adds no space
	}
	k.out = appendPacket(k.out, replyInsert, binary.BigEndian.AppendUint32(nil, 0), []byte(name), nul, []byte(value), nul)
}

// cleanForged removes forged headers of ours, from the last to the first, so that the
// indexes of the others stay valid.
func (k *session) cleanForged() {
	if k.opts.actions&actChangeHeaders == 0 {
		return
	}
	for name, n := range k.msg.forged {
		k.server.Stats.Forged.Add(int64(n))
		for ; n > 0; n-- {
			k.out = appendPacket(k.out, replyChange, binary.BigEndian.AppendUint32(nil, uint32(n)), []byte(name), nul, nul)
		}
	}
}
