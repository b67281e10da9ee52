package abuse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	byAnn  = "Authentication-Results: mx.example.com; auth=pass (plain) smtp.auth=Ann@example.com\r\n"
	letter = "From: seller@spam.example\r\nSubject: Lanterns\r\n\r\nBuy our lanterns, the cheapest of all.\r\n"
)

var site = Options{Host: "mx.example.com", Domains: []string{"example.com"}}

// attach makes a mail with messages attached.
func attach(head string, kind string, messages ...string) string {
	var b strings.Builder
	b.WriteString(head +
		"From: ann@example.com\r\nTo: abuse@example.com\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; " +
		"boundary=\"=_b\"\r\n\r\n")
	b.WriteString("--=_b\r\nContent-Type: text/plain\r\n\r\nSee below.\r\n")
	for _, m := range messages {
		b.WriteString("--=_b\r\nContent-Type: " + kind + "\r\n\r\n" + m + "\r\n")
	}
	return b.String() + "--=_b--\r\n"
}

// TestWho: only facts that the site's own server has verified determine the user of a mail.
func TestWho(t *testing.T) {
	const from = "From: Ann <Ann@Example.com>\r\n"
	received := func(inside, by, with string) string {
		return "Received: from laptop (host.example.net [192.0.2.7])\r\n\t" + inside + "\r\n\tby " + by + " (Postfix) with " +
			with + " id 4X\r\n\tfor <abuse@example.com>; Mon, 23 Nov 2026 12:00:00 +0000\r\n"
	}
	const signed = "Authentication-Results: mx.example.com; dkim=pass header.d=example.com\r\n"
	here := received("", "mx.example.com", "ESMTPS")
	elsewhere := strings.Replace(here, "<abuse@", "<notspam@", 1)
	unsaid := strings.Replace(here, "\r\n\tfor <abuse@example.com>", "", 1)
	for _, tt := range []struct{ name, head, want string }{
		{"nobody says", from, ""},
		{"auth", from + "Authentication-Results: mx.example.com; auth=pass smtp.auth=ann\r\n", "ann"},
		{"host in capitals", from + "Authentication-Results: MX.example.com; auth=pass smtp.auth=ann\r\n", "ann"},
		{"auth elsewhere", from + "Authentication-Results: mx.example.net; auth=pass smtp.auth=ann\r\n", ""},
		{"auth failed", from + "Authentication-Results: mx.example.com; auth=fail smtp.auth=ann\r\n", ""},
		{"dkim of a user's domain", here + from + signed, "ann@example.com"},
		{"dkim, by a host of another name", received("", "mx1.example.com", "ESMTPS") + from + signed, "ann@example.com"},
		{"dkim, as delivered", "Delivered-To: <Abuse+x@example.com>\r\n" + unsaid + from + signed, "ann@example.com"},
		{"dkim, by an alias", "X-Original-To: abuse@example.com\r\nDelivered-To: box@example.net\r\n" + unsaid + from +
			signed, "ann@example.com"},
		{"dkim, to one of several", received("", "mx.example.com", "LMTP") + unsaid + from + signed, "ann@example.com"},
		{"dkim, sent on by somebody", elsewhere + from + signed, ""},
		{"dkim, sent on with a field", elsewhere + "Delivered-To: abuse@example.com\r\n" + from + signed, ""},
		{"dkim, sent on with a way", strings.Replace(elsewhere, "by mx.", "by mx1.", 1) +
			strings.Replace(here, "by mx.", "by mx2.", 1) + from + signed, ""},
		{"dkim, nobody says to whom", unsaid + from + signed, "ann@example.com"},
		{"dkim, nobody says which way", from + signed, "ann@example.com"},
		{"dkim of another", here + from + "Authentication-Results: mx.example.com; dkim=pass header.d=spam.example\r\n", ""},
		{"dkim of a subdomain",
			here + from + "Authentication-Results: mx.example.com; dkim=pass header.d=a.example.com\r\n", ""},
		{"dkim of a stranger's domain",
			here + "From: eve@spam.example\r\nAuthentication-Results: mx.example.com; dkim=pass header.d=spam.example\r\n", ""},
		{"dkim failed", here + from + "Authentication-Results: mx.example.com; dkim=fail header.d=example.com\r\n", ""},
		{"spf alone", from + "Authentication-Results: mx.example.com; spf=pass smtp.mailfrom=ann@example.com\r\n", ""},
		{"two authors",
			here + "From: ann@example.com, eve@example.com\r\nAuthentication-Results: mx.example.com; dkim=pass " +
				"header.d=example.com\r\n", ""},
		{"auth before dkim",
			from + "Authentication-Results: mx.example.com; dkim=pass header.d=example.com; auth=pass smtp.auth=bob\r\n", "bob"},
		{"submitted", received("(Authenticated sender: Bob)", "mx.example.com", "ESMTPSA") + from, "bob"},
		{"submitted and delivered by LMTP", received("", "mx.example.com", "LMTP") +
			received("(Authenticated sender: bob)", "mx.example.com", "ESMTPSA") + from, "bob"},
		{"forged below", received("", "mx.example.com", "ESMTPS") +
			received("(Authenticated sender: bob)", "mx.example.com", "ESMTPSA") + from, ""},
		{"submitted with a certificate", received("(using TLSv1.3 with cipher TLS_AES_256_GCM_SHA384 (256/256 bits))\r\n"+
			"\t(Client CN \"eve\", Issuer \"eve\" (verified OK))\r\n\t(Authenticated sender: bob)", "mx.example.com",
			"ESMTPSA") + from, "bob"},
		{"in a certificate", received("(Client CN \"(Authenticated sender: bob)\", Issuer \"eve\" (not verified))",
			"mx.example.com", "ESMTPS") + from, ""},
		{"hidden by a certificate", received("(Client CN \"x by mx.spam.example\", Issuer \"eve\" (not verified))",
			"mx.example.com", "ESMTPS") + received("(Authenticated sender: bob)", "mx.example.com", "ESMTPSA") + from, ""},
		{"submitted elsewhere", received("(Authenticated sender: bob)", "mx.example.net", "ESMTPSA") + from, ""},
		{"said after by", "Received: from x by mx.example.com (Postfix) with ESMTP (Authenticated sender: bob); now\r\n" +
			from, ""},
		{"in a comment", from +
			"Authentication-Results: mx.example.com; spf=fail (eve said; auth=pass smtp.auth=ann) smtp.mailfrom=a@b.example\r\n",
			""},
		{"in a comment in a comment",
			from +
				"Authentication-Results: mx.example.com; spf=fail (eve (x) said; auth=pass smtp.auth=ann; \\) " +
				"dkim=pass) smtp.mailfrom=a@b.example\r\n", ""},
		{"in a string", from +
			"Authentication-Results: mx.example.com; spf=fail reason=\"eve said; auth=pass smtp.auth=ann\" " +
			"smtp.mailfrom=a@b.example\r\n", ""},
		{"after a comment", from + "Authentication-Results: mx.example.com (1; 2); auth=pass (plain; 3) smtp.auth=ann\r\n",
			"ann"},
		{"in a sender", from +
			"Authentication-Results: mx.example.com; spf=pass smtp.mailfrom=\"a; auth=pass smtp.auth=ann\"@b.example\r\n", ""},
		{"an odd name", from + "Authentication-Results: mx.example.com; auth=pass smtp.auth=\"a b\"\r\n", ""},
		{"a long name", from + "Authentication-Results: mx.example.com; auth=pass smtp.auth=" + strings.Repeat("a", 300) +
			"\r\n", ""},
	} {
		r, err := site.Read([]byte(attach(tt.head, "message/rfc822", letter)))
		switch {
		case tt.want == "":
			if !errors.Is(err, ErrStranger) {
				t.Errorf("%s: %+v, %v; want a stranger", tt.name, r, err)
			}
		case err != nil || r.User != tt.want:
			t.Errorf("%s: %+v, %v; want %s", tt.name, r, err, tt.want)
		}
	}
	if _, err := (&Options{}).Read([]byte(attach("Authentication-Results: ; auth=pass smtp.auth=ann\r\n", "message/rfc822",
		letter))); !errors.Is(err, ErrStranger) {
		t.Errorf("without a host: %v", err)
	}
}

// TestRead: an attached message is reported byte for byte, and a message forwarded in the text with
// its From, Subject and text.
func TestRead(t *testing.T) {
	const plain = byAnn + "From: ann@example.com\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
	feedback := byAnn +
		"From: fbl@example.com\r\nMIME-Version: 1.0\r\nContent-Type: multipart/report; " +
		"report-type=feedback-report; boundary=b\r\n\r\n" +
		"--b\r\n\r\nAn abuse report.\r\n--b\r\nContent-Type: message/feedback-report\r\n\r\n" +
		"Feedback-Type: abuse\r\nVersion: 1\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n" + letter + "\r\n--b--\r\n"
	inside := byAnn +
		"Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n" +
		"--i\r\nContent-Type: message/rfc822\r\n\r\n" + letter + "\r\n--i--\r\n\r\n--o--\r\n"
	own := strings.Replace(attach("", "message/rfc822", "Subject: inner\r\n\r\nx"), "=_b", "=_i", 4)
	many := make([]string, MaxMessages)
	for i := range many {
		many[i] = fmt.Sprintf("Subject: %d\r\n\r\ntext", i)
	}
	const inline = "From: seller@spam.example\r\nSubject: Lanterns\r\nContent-Type: text/plain; " +
		"charset=utf-8\r\n\r\nBuy our lanterns.\r\n\r\nNow.\r\n"
	for _, tt := range []struct {
		name, mail string
		inline     bool
		want       []string // nil: an error
		err        error
	}{
		{"attached", attach(byAnn, "message/rfc822", letter), false, []string{letter}, nil},
		{"two", attach(byAnn, "message/rfc822", letter, "Subject: b\r\n\r\nb"), false,
			[]string{letter, "Subject: b\r\n\r\nb"}, nil},
		{"as a file", attach(byAnn, "application/octet-stream; name=\"Lanterns.EML\"", letter), false, []string{letter}, nil},
		{"in base64", attach(byAnn, "message/rfc822\r\nContent-Transfer-Encoding: base64", "U3ViamVjdDogeAoKYQ=="), false,
			[]string{"Subject: x\n\na"}, nil},
		{"feedback report", feedback, false, []string{letter}, nil},
		{"two levels", inside, false, []string{letter}, nil},
		{"a message with one of its own", attach(byAnn, "message/rfc822", own), false, []string{own}, nil},
		{"sixteen", attach(byAnn, "message/rfc822", many...), false, many, nil},
		{"seventeen", attach(byAnn, "message/rfc822", append(many, letter)...), false, nil, ErrMalformed},
		{"nothing", attach(byAnn, "text/html", "<p>hello"), false, nil, ErrNothing},
		{"an empty one", attach(byAnn, "message/rfc822", ""), false, nil, ErrNothing},
		{"no header", "\x00\x01\x02", false, nil, ErrMalformed},
		{"Thunderbird", plain +
			"fyi\r\n\r\n-------- Forwarded Message --------\r\nSubject: \tLanterns\r\nDate: \tMon, 23 Nov 2026\r\n" +
			"From: \tseller@spam.example\r\nTo: \tann@example.com\r\n\r\n\r\nBuy our lanterns.\r\n", true, nil, nil},
		{"Gmail",
			plain +
				"---------- Forwarded message ---------\r\nFrom: seller@spam.example\r\nSubject: Lanterns\r\n\r\n" +
				"Buy our lanterns.\r\n\r\nNow.\r\n", true, []string{inline}, nil},
		{"Outlook",
			plain +
				"-----Original Message-----\r\nFrom: seller@spam.example\r\nSent: Monday\r\nSubject: Lanterns\r\n\r\n" +
				"Buy our lanterns.\r\n\r\nNow.\r\n", true, []string{inline}, nil},
		{"Apple, quoted", plain +
			"Begin forwarded message:\r\n\r\n> From: seller@spam.example\r\n> Subject: Lanterns\r\n> \r\n" +
			"> Buy our lanterns.\r\n> \r\n> Now.\r\n", true, []string{inline}, nil},
		{"German",
			plain +
				"-------- Weitergeleitete Nachricht --------\r\nVon: seller@spam.example\r\nBetreff: Lanterns\r\n\r\n" +
				"Buy our lanterns.\r\n\r\nNow.\r\n", true, []string{inline}, nil},
		{"a line that only looks so", plain + "-------- Forwarded Message --------\r\nis what Thunderbird writes.\r\n", true,
			nil, ErrNothing},
		{"no text after it", plain + "-------- Forwarded Message --------\r\nFrom: a@b.example\r\n\r\n \r\n", true, nil,
			ErrNothing},
	} {
		r, err := site.Read([]byte(tt.mail))
		if tt.err != nil {
			if !errors.Is(err, tt.err) {
				t.Errorf("%s: %+v, %v; want %v", tt.name, r, err, tt.err)
			}
			continue
		}
		if err != nil || r.Inline != tt.inline || r.User != "ann@example.com" {
			t.Errorf("%s: %+v, %v", tt.name, r, err)
			continue
		}
		if tt.want == nil { // the fields in another order
			if m := string(r.Messages[0]); !strings.Contains(m, "Subject: Lanterns\r\n") ||
				!strings.Contains(m, "From: seller@spam.example\r\n") ||
				!strings.HasSuffix(m, "\r\n\r\n\r\nBuy our lanterns.\r\n") {
				t.Errorf("%s: %q", tt.name, m)
			}
			continue
		}
		if got := string(bytes.Join(r.Messages, []byte("|"))); got != strings.Join(tt.want, "|") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestDepth: mail that is nested too deeply, or has too many parts, is refused.
func TestDepth(t *testing.T) {
	deep := "Content-Type: text/plain\r\n\r\nx\r\n"
	for i := range 20 {
		deep = fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n%s\r\n--b%d--\r\n", i, i, deep, i)
	}
	wide := byAnn + "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\n\r\nx\r\n", 1000) +
		"--b--\r\n"
	for name, mail := range map[string]string{"deep": byAnn + deep, "wide": wide} {
		if r, err := site.Read([]byte(mail)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// FuzzRead: for any input there is a report within the limits or an error of the package, and a
// user whom the mail server did not verify never votes.
func FuzzRead(f *testing.F) {
	f.Add([]byte(attach(byAnn, "message/rfc822", letter, letter)))
	f.Add([]byte(attach(byAnn, "application/octet-stream; name=a.eml", letter)))
	f.Add([]byte(byAnn + "\r\n---------- Forwarded message ---------\r\nFrom: a\r\nSubject: b\r\n\r\ntext\r\n"))
	f.Add(
		[]byte(
			"Received: from a (b [1.2.3.4]) (Authenticated sender: ann) by mx.example.com (Postfix) with ESMTPSA id 1\r\n\r\nx"))
	f.Add(
		[]byte(
			"Authentication-Results: mx.example.com; dkim=pass header.d=example.com\r\nFrom: a@example.com\r\n" +
				"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n" +
				"Content-Transfer-Encoding: quoted-printable\r\n\r\nA: b=0D=0A\r\n--b--"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := site.Read(raw)
		if err != nil {
			if !errors.Is(err, ErrStranger) && !errors.Is(err, ErrNothing) && !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v is no error of the package", err)
			}
			return
		}
		if n := len(r.Messages); n == 0 || n > MaxMessages || r.User == "" || len(r.User) > maxUser {
			t.Fatalf("%d messages of %q", n, r.User)
		}
		if !bytes.Contains(bytes.ToLower(raw), []byte("mx.example.com")) {
			t.Fatalf("%q votes without a word of the mail server", r.User)
		}
		total := 0
		for _, m := range r.Messages {
			total += len(m)
		}
		if total > 4*len(raw)+1024 {
			t.Fatalf("%d bytes of %d", total, len(raw))
		}
	})
}
