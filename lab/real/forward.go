package real

import (
	"fmt"
	"strings"
)

// The addresses of the abuse mailboxes, and the name of the sites' mail server in its
// Authentication-Results and Received fields.
const (
	abuseAddress    = "spam@abuse.example"
	abuseHamAddress = "notspam@abuse.example"
	resultsHost     = "mx.real.example"
)

// stored returns a mail as it lies in its reader's mailbox: with the fields of the mail server,
// and of the milter.
func stored(m *Mail, a Answer, door Door) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Return-Path: <%s>\r\nDelivered-To: %s\r\n", m.Sender, m.Recipient)
	if door == Milter {
		class := a.Class.String()
		if a.Partial {
			class = "none"
		}
		fmt.Fprintf(&b, "X-Bulkhead: %s\r\n", class)
	}
	fmt.Fprintf(&b, "Received: from %s (%s [%v])\r\n\tby %s (Postfix) with ESMTP id 4XvQ2z1\r\n\tfor <%s>; %s\r\n",
		m.Helo, m.Helo, m.Client, resultsHost, m.Recipient, m.Date)
	b.Write(m.Raw)
	return []byte(b.String())
}

// forward returns a mail by which the reader sends a message to an abuse mailbox, in the form of
// a mail program. The envelope's recipient is to.
func forward(way Way, m *Mail, original []byte, to string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nDate: %s\r\nMessage-ID: <fwd-%s>\r\nMIME-Version: 1.0\r\n", m.Recipient, to,
		m.Date, m.MessageID)
	text := strings.ReplaceAll(m.Text, "\n", "\r\n")
	inline := func(subject, body string) {
		fmt.Fprintf(&b, "Subject: %s%s\r\nContent-Type: text/plain; charset=utf-8\r\n"+
			"Content-Transfer-Encoding: 8bit\r\n\r\n%s",
			subject, oneLine(m.Subject), body)
	}
	switch way {
	case Gmail:
		inline("Fwd: ", fmt.Sprintf("---------- Forwarded message ---------\r\n"+
			"From: %s\r\nDate: %s\r\nSubject: %s\r\nTo: <%s>\r\n\r\n\r\n%s\r\n",
			m.From, m.Date, oneLine(m.Subject), m.Recipient, text))
	case Outlook:
		inline("FW: ", fmt.Sprintf("\r\n\r\n-----Original Message-----\r\n"+
			"From: %s\r\nSent: %s\r\nTo: %s\r\nSubject: %s\r\n\r\n%s\r\n",
			m.From, m.Date, m.Recipient, oneLine(m.Subject), text))
	case AppleMail:
		quoted := "> " + strings.ReplaceAll(text, "\r\n", "\r\n> ")
		inline("Fwd: ", fmt.Sprintf("\r\n\r\n> Begin forwarded message:\r\n> \r\n"+
			"> From: %s\r\n> Subject: %s\r\n> Date: %s\r\n> To: %s\r\n> \r\n%s\r\n",
			m.From, oneLine(m.Subject), m.Date, m.Recipient, quoted))
	default: // Thunderbird, "Forward As Attachment"
		const boundary = "------------tb7f3b91"
		fmt.Fprintf(&b, "Subject: Fwd: %s\r\nUser-Agent: Mozilla Thunderbird\r\n"+
			"Content-Type: multipart/mixed; boundary=%q\r\n\r\n", oneLine(m.Subject), boundary)
		fmt.Fprintf(&b, "--%s\r\nContent-Type: text/plain; charset=UTF-8; format=flowed\r\n\r\n\r\n", boundary)
		fmt.Fprintf(&b, "--%s\r\nContent-Type: message/rfc822; charset=UTF-8; name=\"message.eml\"\r\n"+
			"Content-Disposition: attachment; filename=\"message.eml\"\r\n\r\n%s\r\n--%s--\r\n", boundary, original, boundary)
	}
	return []byte(b.String())
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
