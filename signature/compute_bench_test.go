//go:build linux

package signature

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// benchmarkMails returns sets of messages of which the schemes are measured:
// samples, list mail and phishing of the corpus, and made-up messages: 20 KB of
// plain text, both texts of a newsletter of 20 KB, and a page of 100 KB.
func benchmarkMails(b *testing.B) map[string][][]byte {
	b.Helper()
	sets := map[string][][]byte{"plain": {plainMail(20_000)}, "newsletter": {newsletter(20_000)},
		"page": {pageMail(125_000)}}
	names, err := filepath.Glob(filepath.Join(sharedtest.Corpus(b, "samples"), "*.eml"))
	if err != nil || len(names) == 0 {
		b.Fatalf("no samples: %v", err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		sets["samples"] = append(sets["samples"], raw)
	}
	sets["lists"] = collected(b, "lists-2019-2020", 200)
	sets["phishing"] = collected(b, "phishing-pot-2023-2024", 200)
	return sets
}

// collected reads n messages of a collection, spread over all of it.
func collected(b *testing.B, set string, n int) [][]byte {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(sharedtest.Unpack(b, set), "*.eml"))
	if err != nil || len(files) < n {
		b.Fatalf("%d files, %v", len(files), err)
	}
	mails := make([][]byte, n)
	for i := range mails {
		if mails[i], err = os.ReadFile(files[i*len(files)/n]); err != nil {
			b.Fatal(err)
		}
	}
	return mails
}

// madeUpWords returns n words, the frequent ones short, as in a language.
func madeUpWords(r *rand.Rand, n int) []string {
	vocabulary := make([]string, 2000)
	for i := range vocabulary {
		word := make([]byte, 2+min(i/150, 6)+r.IntN(4))
		for k := range word {
			word[k] = "etaoinshrdlucmfwypvbgkjqxz"[min(r.IntN(26), r.IntN(26))]
		}
		vocabulary[i] = string(word)
	}
	words := make([]string, n)
	for i := range words {
		words[i] = vocabulary[r.IntN(1+r.IntN(len(vocabulary)))]
	}
	return words
}

const benchmarkHeader = "Return-Path: <news-bounce@shop.example>\r\n" +
	"Received: from mx.shop.example (mx.shop.example [192.0.2.7])\r\n" +
	"\tby mx.example.com with ESMTPS id 4711 for <bob@example.com>; Tue, 3 Mar 2026 10:00:00 +0000\r\n" +
	"From: The Shop <news@shop.example>\r\nTo: Bob Miller <bob@example.com>\r\nSubject: =?utf-8?q?New_in_M=C3=A4rz?=\r\n" +
	"Message-ID: <1.2.3@shop.example>\r\nDate: Tue, 3 Mar 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\n"

// plainMail is a message of plain text.
func plainMail(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString(benchmarkHeader + "Content-Type: text/plain; charset=utf-8\r\n\r\nDear Bob,\r\n\r\n")
	column := 0
	for i, word := range madeUpWords(r, size/3) {
		if column += len(word) + 1; column > 72 {
			text.WriteString("\r\n")
			column = len(word) + 1
		}
		text.WriteString(word)
		if i%12 == 11 {
			text.WriteByte('.')
		}
		if i%90 == 89 {
			text.WriteString(" https://www.shop.example/item?id=4711\r\n")
		}
		text.WriteByte(' ')
		if text.Len() > size {
			break
		}
	}
	return []byte(text.String() + "\r\n")
}

// newsletter is a message of two texts, in quoted-printable.
func newsletter(size int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	words := madeUpWords(r, size/32)
	var text, page strings.Builder
	page.WriteString("<html><head><style>p { margin: 0 }</style></head><body><table width=3D\"100%\">\r\n")
	for i, word := range words {
		text.WriteString(word + " ")
		if i%9 == 0 {
			fmt.Fprintf(&page,
				"</td></tr>\r\n<tr><td style=3D\"font-family:Arial; color:#333333\" align=3D\"left\">=\r\n"+
					"<a href=3D\"https://www.shop.example/i?n=3D%d&amp;u=3D7\">",
				i)
		}
		page.WriteString(word)
		switch i % 9 {
		case 2:
			page.WriteString("</a>&nbsp;<b>")
		case 6:
			page.WriteString("=C3=A4</b><br>")
		case 8:
			text.WriteString("\r\n")
		}
		page.WriteByte(' ')
	}
	mail := benchmarkHeader +
		"Content-Type: multipart/alternative; boundary=\"b1\"\r\n\r\n--b1\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\n\r\n" +
		text.String() +
		"\r\n--b1\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
		page.String() + "</table></body></html>\r\n--b1--\r\n"
	return []byte(mail)
}

// pageMail is the page alone of a newsletter of that size.
func pageMail(size int) []byte {
	_, page, _ := strings.Cut(string(newsletter(size)), "\r\n--b1\r\nContent-Type: text/html")
	return []byte(benchmarkHeader + "Content-Type: text/html" + page)
}

// BenchmarkCompute measures all signatures of a message together.
func BenchmarkCompute(b *testing.B) {
	benchmarkSets(b, func(raw []byte) {
		if _, err := Compute(b.Context(), raw, Options{}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkSchemes measures the reading of a message, and each family of
// schemes with it.
func BenchmarkSchemes(b *testing.B) {
	for _, family := range [][]bulkhead.Scheme{
		nil,
		{bulkhead.Markup},
		{bulkhead.Exact},
		{bulkhead.Exact, bulkhead.Near},
		{bulkhead.RazorE4, bulkhead.RazorE8},
		{bulkhead.PyzorDigest},
		{bulkhead.DCCBody, bulkhead.DCCFuz1, bulkhead.DCCFuz2},
		{bulkhead.RspamdText, bulkhead.RspamdShingle},
		{bulkhead.Attachment, bulkhead.Image},
	} {
		name := "read"
		if family != nil {
			name = family[len(family)-1].String()
		}
		var skip []bulkhead.Scheme
		for _, scheme := range bulkhead.Schemes() {
			if !slices.Contains(family, scheme) {
				skip = append(skip, scheme)
			}
		}
		b.Run(name, func(b *testing.B) {
			benchmarkSets(b, func(raw []byte) {
				if _, err := Compute(b.Context(), raw, Options{Skip: skip}); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func benchmarkSets(b *testing.B, f func(raw []byte)) {
	for _, name := range []string{"plain", "newsletter", "page", "samples", "lists", "phishing"} {
		b.Run(name, func(b *testing.B) {
			mails := benchmarkMails(b)[name]
			size := 0
			for _, raw := range mails {
				size += len(raw)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			begin := processorTime()
			for b.Loop() {
				for _, raw := range mails {
					f(raw)
				}
			}
			b.ReportMetric(float64((processorTime()-begin).Nanoseconds())/1e3/float64(b.N*len(mails)), "cpu-µs/message")
		})
	}
}

// processorTime returns what the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
