//go:build linux

package learn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// made returns a message of about size bytes: words of a made language in plain text and, unless plain is
// set, the same in a page with styles and links. Some words are frequent, as in a language.
func made(size int, plain bool) string {
	rng := rand.New(rand.NewPCG(uint64(size), 7))
	vocabulary := make([][]byte, 2000)
	for i := range vocabulary {
		for n := 2 + min(i/150, 6) + rng.IntN(4); n > 0; n-- {
			vocabulary[i] = append(vocabulary[i], "etaoinshrdlucmfwypvbgkjqxz"[min(rng.IntN(26), rng.IntN(26))])
		}
	}
	var text, page strings.Builder
	for i := 0; text.Len()+page.Len() < size; i++ {
		word := vocabulary[rng.IntN(1+rng.IntN(len(vocabulary)))]
		if i%9 == 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "%s ", word)
		if plain {
			continue
		}
		if i%9 == 0 {
			fmt.Fprintf(&page, "</td></tr>\r\n<tr><td style=\"font-family:Arial; color:#333333\" align=\"left\">"+
				"<a href=\"https://www.shop.example/i?n=%d\">", i)
		}
		fmt.Fprintf(&page, "%s ", word)
		if i%9 == 3 {
			page.WriteString("</a>&nbsp;<b>ä</b><br>")
		}
	}
	head := "From: Shop <news@shop.example>\r\nSubject: News of March\r\nMIME-Version: 1.0\r\n"
	if plain {
		return head + "Content-Type: text/plain; charset=utf-8\r\n\r\n" + text.String()
	}
	return head + "Content-Type: multipart/alternative; boundary=b\r\n\r\n" +
		"--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + text.String() +
		"\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body><table>" + page.String() +
		"</table></body></html>\r\n--b--\r\n"
}

// BenchmarkCost measures what learning adds to the reading of messages of several sizes, in microseconds of
// processor time: the features that count in a check and their tokens in its delivery, both with the tokens
// of a score.
func BenchmarkCost(b *testing.B) {
	secret := filter.Secret{3}
	for _, size := range []int{2000, 9700, 20_000, 30_000} {
		for _, plain := range []bool{true, false} {
			m, err := mail.Read(b.Context(), []byte(made(size, plain)))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%d", map[bool]string{true: "plain", false: "page"}[plain], size), func(b *testing.B) {
				var before, after syscall.Rusage
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					features, err := Counting(b.Context(), m, secret)
					if err != nil {
						b.Fatal(err)
					}
					Select(nil, secret, features)
					Tokens(secret, features)
				}
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
					b.Fatal(err)
				}
				used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(used)/1000/float64(b.N), "cpu-us/op")
			})
		}
	}
}
