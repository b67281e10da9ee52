package signature_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A maker makes mail as machines do: a template and particulars. Each call of a method draws anew.
type maker struct {
	r      *rand.Rand
	silent bool // no field says that a program wrote the mail
}

func (m maker) one(of ...string) string { return of[m.r.IntN(len(of))] }

func (m maker) name() string {
	return m.one("Ann", "Bob", "Carla", "Dmitri", "Eva", "Farid", "Grace", "Hugo", "Ines", "Jan", "Kim", "Luis") + " " +
		m.one("Abel", "Bauer", "Costa", "Dubois", "Evans", "Fischer", "Garcia", "Horak", "Ito", "Jansen", "Kowalski", "Lind")
}

func (m maker) word() string {
	var b strings.Builder
	for range 2 + m.r.IntN(3) {
		b.WriteString(m.one("ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re", "si", "to", "vu"))
	}
	return b.String()
}

func (m maker) words(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = m.word()
	}
	return strings.Join(all, " ")
}

func (m maker) host() string    { return m.word() + m.one(".example.com", ".example.net", ".example.org") }
func (m maker) address() string { return m.word() + "@" + m.host() }
func (m maker) number() string  { return fmt.Sprint(10_000 + m.r.IntN(9_000_000)) }
func (m maker) ip() string      { return fmt.Sprintf("192.0.2.%d", 1+m.r.IntN(250)) }

func (m maker) date() string {
	return fmt.Sprintf("%s, %d %s 2026 %02d:%02d:%02d +0000", m.one("Mon", "Tue", "Wed", "Thu", "Fri"), 1+m.r.IntN(28),
		m.one("Jan", "Mar", "Jun", "Sep", "Nov"), m.r.IntN(24), m.r.IntN(60), m.r.IntN(60))
}

// letter is the text of an ordinary mail.
func (m maker) letter() string {
	return "Dear " + m.name() + ",\n\n" + m.words(40) + ".\n\n" + m.name()
}

func (m maker) head(from, subject string) string {
	return fmt.Sprintf("From: %s\nTo: %s\nSubject: %s\nDate: %s\nMessage-ID: <%s@%s>\nMIME-Version: 1.0\n", from,
		m.address(),
		subject, m.date(), m.number(), m.host())
}

// automatic returns a mail with the fields by which a program says that it wrote the mail.
func (m maker) automatic(mail string) string {
	if m.silent {
		return mail
	}
	return m.one("Auto-Submitted: auto-replied\n", "Auto-Submitted: auto-generated\n", "Return-Path: <>\n",
		"X-Auto-Response-Suppress: All\nAuto-Submitted: auto-generated\n") + mail
}

func (m maker) plain(from, subject, text string) string {
	return m.head(from, subject) + "Content-Type: text/plain; charset=utf-8\n\n" + text
}

// parts returns a multipart of parts, each with its header.
func (m maker) parts(from, subject, kind string, parts ...string) string {
	boundary := "b" + m.number()
	return m.head(from, subject) + "Content-Type: multipart/" + kind + "; boundary=" + boundary + "\n\n--" +
		boundary + "\n" +
		strings.Join(parts, "\n--"+boundary+"\n") + "\n--" + boundary + "--\n"
}

func (m maker) original() string {
	return "Content-Type: message/rfc822\n\nFrom: " + m.address() + "\nTo: " + m.address() + "\nSubject: " + m.words(3) +
		"\nMessage-ID: <" + m.number() + "@" + m.host() + ">\n\n" + m.letter()
}

func (m maker) bounce(text string) string {
	host := m.host()
	return m.parts("Mail Delivery System <MAILER-DAEMON@"+host+">", m.one("Undelivered Mail Returned to Sender",
		"Delivery Status Notification (Failure)"), "report; report-type=delivery-status",
		"Content-Type: text/plain; charset=utf-8\n\n"+text,
		"Content-Type: message/delivery-status\n\nReporting-MTA: dns; "+host+"\nArrival-Date: "+m.date()+
			"\n\nFinal-Recipient: rfc822; "+m.address()+"\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: "+
			"smtp; 550 5.1.1 User unknown",
		m.original())
}

func (m maker) base64(n int) string {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(m.r.UintN(256))
	}
	text := base64.StdEncoding.EncodeToString(data)
	var lines strings.Builder
	for line := range slices.Chunk([]byte(text), 64) {
		lines.Write(append(line, '\n'))
	}
	return lines.String()
}

// machines are kinds of mail that machines make.
var machines = map[string]func(m maker) string{
	"bounce of Postfix": func(m maker) string {
		return m.bounce("This is the mail system at host " + m.host() +
			".\n\nI'm sorry to have to inform you that your message " +
			"could not\nbe delivered to one or more recipients. It's attached below.\n\nFor further assistance, " +
			"please send mail " +
			"to postmaster.\n\nIf you do so, please include this problem report. You can\ndelete your own text " +
			"from the attached " +
			"returned message.\n\n                   The mail system\n\n<" + m.address() + ">: host " + m.host() + "[" + m.ip() +
			"] said: 550\n    5.1.1 User unknown (in reply to RCPT TO command)\n")
	},
	"bounce of Exim": func(m maker) string {
		return m.automatic(m.plain("Mail Delivery System <Mailer-Daemon@"+m.host()+">",
			"Mail delivery failed: returning message to sender",
			"This message was created automatically by mail delivery software.\n\nA message that you sent could "+
				"not be delivered to "+
				"one or more of its\nrecipients. This is a permanent error. The following address(es) failed:\n\n  "+m.address()+
				"\n    host "+m.host()+" ["+m.ip()+"]\n    SMTP error from remote mail server after RCPT TO:<"+m.address()+
				">:\n    550 No such user here\n\n------ This is a copy of the message, including all the headers. ------\n\n"+
				"Return-path: <"+m.address()+">\nFrom: "+m.address()+"\nSubject: "+m.words(3)+"\n\n"+m.letter()))
	},
	"bounce of Exchange": func(m maker) string {
		return m.bounce("Delivery has failed to these recipients or groups:\n\n" + m.name() + " (" + m.address() +
			")\nThe email " +
			"address you entered couldn't be found. Please check the recipient's email address and try to " +
			"resend the message. If " +
			"the problem continues, please contact your email admin.\n\nDiagnostic information for " +
			"administrators:\n\nGenerating " +
			"server: " + m.host() + "\n\n" + m.address() + "\nRemote server returned '550 5.1.1 " +
			"RESOLVER.ADR.RecipNotFound; not found'\n")
	},
	"bounce of qmail": func(m maker) string {
		return m.automatic(m.plain("MAILER-DAEMON@"+m.host(), "failure notice",
			"Hi. This is the qmail-send program at "+m.host()+
				".\nI'm afraid I wasn't able to deliver your message to the following addresses.\nThis is a "+
				"permanent error; I've given "+
				"up. Sorry it didn't work out.\n\n<"+m.address()+">:\n"+m.ip()+" does not like recipient.\nRemote "+
				"host said: 550 unknown "+
				"user\nGiving up on "+m.ip()+".\n\n--- Below this line is a copy of the message.\n\nReturn-Path: <"+m.address()+
				">\nFrom: "+m.address()+"\nSubject: "+m.words(2)+"\n\n"+m.letter()))
	},
	"bounce of Gmail": func(m maker) string {
		return m.bounce("** Address not found **\n\nYour message wasn't delivered to " + m.address() +
			" because the address couldn't be " +
			"found, or is unable to receive mail.\n\nThe response from the remote server was:\n550 5.1.1 The " +
			"email account that you " +
			"tried to reach does not exist. Please try double-checking the recipient's email address for typos " +
			"or unnecessary spaces.\n")
	},
	"bounce of Sendmail": func(m maker) string {
		return m.bounce("The original message was received at " + m.date() + "\nfrom " + m.host() + " [" + m.ip() +
			"]\n\n   ----- The " +
			"following addresses had permanent fatal errors -----\n<" + m.address() +
			">\n    (reason: 550 5.1.1 User unknown)\n\n   " +
			"----- Transcript of session follows -----\n... while talking to " + m.host() + ".:\n>>> RCPT To:<" + m.address() +
			">\n<<< 550 5.1.1 User unknown\n550 5.1.1 <" + m.address() + ">... User unknown\n")
	},
	"read receipt": func(m maker) string {
		subject := m.words(3)
		return m.parts(m.name()+" <"+m.address()+">", "Read: "+subject, "report; report-type=disposition-notification",
			"Content-Type: text/plain; charset=utf-8\n\nYour message\n\n   To: "+m.name()+"\n   Subject: "+
				""+subject+"\n   Sent: "+m.date()+
				"\n\n was read on "+m.date()+".\n",
			"Content-Type: message/disposition-notification\n\nFinal-recipient: RFC822; "+m.address()+
				"\nDisposition: automatic-action/MDN-sent-automatically; displayed\nX-MSExch-Correlation-Key: "+m.number()+"\n")
	},
	"return receipt": func(m maker) string {
		return m.parts(m.name()+" <"+m.address()+">", "Return Receipt (displayed) - "+m.words(3),
			"report; report-type=disposition-notification",
			"Content-Type: text/plain; charset=utf-8\n\nThis is a Return Receipt for the mail that you sent to "+m.address()+
				".\n\nNote: This Return Receipt only acknowledges that the message was displayed on the "+
				"recipient's computer. There is "+
				"no guarantee that the recipient has read or understood the message contents.\n",
			"Content-Type: message/disposition-notification\n\nReporting-UA: "+m.host()+"; Mail "+m.number()+
				"\nFinal-Recipient: rfc822;"+m.address()+"\nDisposition: manual-action/MDN-sent-manually; displayed\n",
			"Content-Type: text/rfc822-headers\n\nFrom: "+m.address()+"\nSubject: "+m.words(3)+"\n")
	},
	"feedback report": func(m maker) string {
		return m.parts("Feedback <fbl@"+m.host()+">", "FW: "+m.words(3), "report; report-type=feedback-report",
			"Content-Type: text/plain; charset=utf-8\n\nThis is an email abuse report for an email message "+
				"received from IP "+m.ip()+
				" on "+m.date()+". For more information about this format please see http://www.mipassoc.org/arf/.\n",
			"Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nUser-Agent: Feedback/1.0\nVersion: "+
				"1\nSource-IP: "+m.ip()+
				"\nOriginal-Rcpt-To: "+m.address()+"\nArrival-Date: "+m.date()+"\n", m.original())
	},
	"DMARC report": func(m maker) string {
		host := m.host()
		return m.parts("noreply-dmarc@"+m.host(), "Report Domain: "+host+" Submitter: "+m.host()+" Report-ID: "+
			""+m.number(), "mixed",
			"Content-Type: text/plain; charset=utf-8\n\nThis is an aggregate report from "+m.host()+" for the "+
				"domain "+host+".\n",
			"Content-Type: application/gzip; "+
				"name=\""+host+"!"+m.number()+".xml.gz\"\nContent-Transfer-Encoding: base64\n\n"+m.base64(600))
	},
	"encrypted by PGP": func(m maker) string {
		return m.parts(m.name()+" <"+m.address()+">", "...", "encrypted; protocol=\"application/pgp-encrypted\"",
			"Content-Type: application/pgp-encrypted\nContent-Description: PGP/MIME version identification\n\nVersion: 1\n",
			"Content-Type: application/octet-stream; name=\"encrypted.asc\"\n\n-----BEGIN PGP MESSAGE-----\n\n"+m.base64(900)+
				"-----END PGP MESSAGE-----\n")
	},
	"encrypted by PGP, inline": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(2),
			"-----BEGIN PGP MESSAGE-----\nVersion: GnuPG v2\n\n"+m.base64(700)+
				"-----END PGP MESSAGE-----\n")
	},
	"encrypted by S/MIME": func(m maker) string {
		return m.head(m.address(), m.words(3)) + "Content-Type: application/pkcs7-mime; " +
			"smime-type=enveloped-data; name=smime.p7m\n" +
			"Content-Transfer-Encoding: base64\n\n" + m.base64(1500)
	},
	"signed note": func(m maker) string {
		return m.parts(m.name()+" <"+m.address()+">", "Re: "+m.words(2), "signed; protocol=\"application/pgp-signature\"",
			"Content-Type: text/plain\n\nThanks, I got it.\n\n-- \n"+m.name()+"\n",
			"Content-Type: application/pgp-signature; name=signature.asc\n\n-----BEGIN PGP SIGNATURE-----\n\n"+m.base64(400)+
				"-----END PGP SIGNATURE-----\n")
	},
	"out of office": func(m maker) string {
		return m.automatic(m.plain(m.name()+" <"+m.address()+">", "Automatic reply: "+m.words(3),
			m.one("Thank you for your message. ",
				"Hello, thanks for your email. ", "Hi. ")+"I am out of the office until "+m.date()+" and will have "+
				"limited access to email. "+
				"For urgent matters please contact my colleague "+m.name()+" at "+m.address()+" or by phone at +1 555 "+m.number()+
				".\n\nBest regards,\n"+m.name()+"\n"))
	},
	"invitation": func(m maker) string {
		what, when := m.words(3), m.date()
		return m.parts(m.name()+" <"+m.address()+">", "Invitation: "+what+" @ "+when, "alternative",
			"Content-Type: text/plain; charset=utf-8\n\nYou have been invited to the following event.\n\nTitle: "+
				""+what+"\nWhen: "+when+
				"\nWhere: "+m.words(2)+"\nWho: "+m.name()+" - organizer\n\nEvent details: "+
				"https://calendar."+m.host()+"/event?eid="+m.number()+
				"\n\nInvitation from the calendar. You are receiving this email because you are an attendee of "+
				"this event. To stop "+
				"receiving future updates for this event, decline this event. Forwarding this invitation could "+
				"allow any recipient to "+
				"send a response to the organizer.\n",
			"Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:"+what+"\nUID:"+m.number()+
				"\nEND:VEVENT\nEND:VCALENDAR\n")
	},
	"meeting of a video service": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(3),
			m.name()+" is inviting you to a scheduled meeting.\n\nTopic: "+
				m.words(4)+"\nTime: "+m.date()+"\n\nJoin the meeting\nhttps://meet."+m.host()+"/j/"+m.number()+"?pwd="+m.word()+
				"\n\nMeeting ID: "+m.number()+"\nPasscode: "+m.number()+"\n\nOne tap mobile\n+1555"+m.number()+",,"+m.number()+
				"# US\n\nDial by your location\n+1 555 "+m.number()+" US\nFind your local number: "+
				"https://meet."+m.host()+"/u/"+m.word()+"\n")
	},
	"shared document": func(m maker) string {
		who, what, host := m.name(), m.words(2), m.host()
		return m.automatic(m.plain(who+" (via Docs) <drive-shares-noreply@"+host+">",
			"Document shared with you: \""+what+"\"", who+
				" has invited you to edit the following "+
				"document:\n\n"+what+"\nhttps://docs."+host+"/document/d/"+m.number()+"/edit\n\n"+
				"Open in Docs\n\nIf you don't want to receive files from this person, block the sender from Drive. "+
				"You have received this "+
				"email because "+m.address()+" shared a document with you.\n"))
	},
	"password reset": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Support <no-reply@"+host+">", "Reset your password",
			"Hello "+m.name()+",\n\nWe received a request to reset "+
				"the password for your account. To choose a new password, follow this "+
				"link:\n\nhttps://"+host+"/reset/"+m.number()+
				"\n\nThis link expires in 24 hours. If you did not ask for a new password, you can ignore this "+
				"message and your password "+
				"will not change.\n\nThe "+m.word()+" team\n"))
	},
	"order notice": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Shop <orders@"+host+">", "Your order "+m.number(),
			"Hi "+m.name()+",\n\nThank you for your order. We will let "+
				"you know once your items have shipped.\n\nOrder number: "+m.number()+"\n"+m.words(3)+"  1 x "+
				""+m.number()+"\n"+m.words(3)+
				"  2 x "+m.number()+"\nTotal: "+m.number()+"\n\nShip to: "+m.name()+", "+m.words(2)+"\n\nView or "+
				"manage your order at https://"+
				host+"/orders/"+m.number()+"\n"))
	},
	"parcel notice": func(m maker) string {
		host := m.host()
		return m.automatic(m.plain("Parcels <noreply@"+host+">", "Your parcel is on its way",
			"Hello "+m.name()+",\n\nyour parcel from "+m.word()+
				" with the number "+m.number()+" is on its way to you and will be delivered on "+m.date()+". Follow "+
				"it here: https://"+host+
				"/track/"+m.number()+"\n\nPlease do not reply to this message.\n"))
	},
	"login code": func(m maker) string {
		return m.automatic(m.plain("Security <security@"+m.host()+">", "Your verification code is "+m.number(),
			"Your verification code is:\n\n"+
				m.number()+"\n\nThe code expires in 10 minutes. If you did not request it, you can ignore this "+
				"email. Do not share this code "+
				"with anyone.\n"))
	},
	"voicemail notice": func(m maker) string {
		return m.automatic(m.parts("Voicemail <voicemail@"+m.host()+">", "New voicemail from "+m.number(), "mixed",
			"Content-Type: text/plain\n\n"+
				"You have received a new voicemail message.\n\nFrom: "+m.number()+"\nReceived: "+
				""+m.date()+"\nLength: 0:"+m.number()[:2]+
				"\nMailbox: "+m.number()[:3]+"\n\nThe message is attached to this email as an audio file.\n",
			"Content-Type: audio/wav; name=msg"+m.number()+".wav\nContent-Disposition: "+
				"attachment\nContent-Transfer-Encoding: base64\n\n"+
				m.base64(3000)))
	},
	"fax notice": func(m maker) string {
		return m.automatic(m.parts("Fax <fax@"+m.host()+">", "Fax from "+m.number(), "mixed",
			"Content-Type: text/plain\n\nYou have received a fax of "+
				m.number()[:1]+" pages from "+m.number()+" at "+m.date()+". The document is attached as a file.\n",
			"Content-Type: application/pdf; name=fax"+m.number()+".pdf\nContent-Disposition: attachment\n"+
				"Content-Transfer-Encoding: base64\n\n"+m.base64(3000)))
	},
	"scanned document": func(m maker) string {
		return m.automatic(m.parts("scanner@"+m.host(), "Message from KM_"+m.number(), "mixed",
			"Content-Type: text/plain\n\nPlease open the attached "+
				"document. It was scanned and sent to you using a multifunction device.\n\nDevice location: "+
				""+m.words(1)+"\nFile type: PDF\n",
			"Content-Type: application/pdf; name=scan"+m.number()+".pdf\nContent-Disposition: attachment\n"+
				"Content-Transfer-Encoding: base64\n\n"+m.base64(3000)))
	},
	"short mail below a banner": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(2),
			"CAUTION: This email originated from outside of the organization. Do not "+
				"click links or open attachments unless you recognize the sender and know the content is safe.\n\n"+m.words(3)+"\n")
	},
	"short mail above a disclaimer": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(2),
			"Yes, "+m.words(3)+".\n\n"+m.name()+"\n\nThis e-mail and any attachments are "+
				"confidential and intended solely for the addressee. If you are not the intended recipient, please "+
				"notify the sender and "+
				"delete this message. Any unauthorised copying, disclosure or distribution is strictly forbidden.\n")
	},
	"message of a telephone": func(m maker) string {
		return m.plain(m.name()+" <"+m.address()+">", m.words(2), m.words(2)+"\n\nSent from my iPhone\n")
	},
}

// undeclared are the kinds of mail whose header is like the header of a person's mail. Mail of such a kind is
// like a campaign: a changed copy of a reported one is suspected.
var undeclared = []string{"meeting of a video service"}

// TestMachineMade checks that a report of one mail of a kind that machines make says nothing of
// another one: it is never spam, and suspected in at most 5 of 100 cases.
func TestMachineMade(t *testing.T) {
	all := maps.Clone(machines)
	maps.Copy(all, notices)
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, silent %t", kind, silent), func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, uint64(len(kind))))
				testMachine(t, maker{r, silent}, all[kind], !slices.Contains(undeclared, kind))
			})
		}
	}
}

// testMachine checks a kind. Its mail may be suspected seldom, if rarely is set.
func testMachine(t *testing.T, from maker, kind func(maker) string, rarely bool) {
	const instances, reports = 20, 4
	all := make([]bulkhead.Query, instances)
	for i := range all {
		m := mailtest.Must(mail.Read(t.Context(), []byte(kind(from))))
		all[i].Signatures = mailtest.Must(signature.Compute(mail.WithMessage(t.Context(), m), m.Raw,
			signature.Options{AboveFloor: true}))
		all[i].Source = m.Source()
	}
	suspected := make(map[string]int)
	total := 0
	for reported := range reports {
		e := enginetest.Small(t, nil)
		_, err := e.Report(t.Context(), bulkhead.Report{Signatures: all[reported].Signatures, Vote: bulkhead.Spam,
			Source: all[reported].Source})
		if errors.Is(err, bulkhead.ErrMalformed) {
			continue // it has no signature that a vote may fall on
		} else if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if i == reported || len(all[i].Signatures) == 0 {
				continue
			}
			switch v := mailtest.Must(e.Check(t.Context(), all[i])); v.Class {
			case bulkhead.ClassSpam:
				t.Errorf("mail %d is spam after the report of mail %d: %v", i, reported, v.Reasons)
			case bulkhead.ClassSuspected:
				suspected[v.Reasons[0]]++
				total++
			}
		}
	}
	if most := reports * (instances - 1) / 20; rarely && total > most {
		t.Errorf("%d of %d are suspected, at most %d may be: %v", total, reports*(instances-1), most, suspected)
	}
}
