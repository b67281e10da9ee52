//go:build interop

package mta

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// dnsblNode runs a node with a list in each form, a zone of two lists and two live zones, under
// bl.example.com. One user has reported a message with the link and the attachment of suspicious.
func dnsblNode(t testing.TB) *node {
	t.Helper()
	n := newNode(t, "")
	config, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	text := string(config)
	add := func(name, form, code string, args []string, lines ...string) {
		path := n.list(t, name+".list", append(args, "--reason", "made up: "+name), lines...)
		text += fmt.Sprintf(
			"[[lists.list]]\nname = %q\npath = %q\n[[dnsbl.zone]]\nname = \"%s.bl.example.com\"\nlist = %q\nform = %q\n"+
				"code = %q\n",
			name, path, name, name, form, code)
	}
	add("domain", "domain", "127.0.0.2", nil, "evil.example.net", "spam-shop.com")
	add("ip", "ip", "127.0.0.3", nil, "198.51.100.0/24")
	for i, hash := range []string{"md5", "sha1", "sha256"} {
		add(hash, "hash", fmt.Sprintf("127.0.0.%d", 4+i), []string{"--hash", hash}, "mallory@example.org")
	}
	homes := n.list(t, "homes.list", nil, "198.51.100.8/29 :127.0.0.10:a home, $")
	text += fmt.Sprintf(`[[lists.list]]
name = "homes"
path = %q
[[dnsbl.zone]]
name = "all.bl.example.com"
form = "ip"
lists = ["ip :127.0.0.3:a relay", "homes"]
[[dnsbl.zone]]
name = "uri.live.bl.example.com"
form = "domain"
live = true
[[dnsbl.zone]]
name = "file.live.bl.example.com"
form = "hash"
live = true
`, homes)
	writeFile(t, n.config, "%s", text)
	n.start(t)
	n.bulkhead(t, "From: carl@lamps.example\nTo: eve@example.com\nSubject: lamps\nMessage-ID: <0@lamps.example>\n"+
		parts("Lamps and lanterns for each garden, at http://lamps-today.com/new since the first of the month."),
		"report", "--server", "http://"+n.http, "-")
	return n
}

// parts returns the rest of a message with a text and an attachment, which is always the same.
func parts(text string) string {
	attached := make([]byte, 3000)
	rand.NewChaCha8([32]byte{1}).Read(attached)
	encoded := base64.StdEncoding.EncodeToString(attached)
	var lines strings.Builder
	for len(encoded) > 76 {
		lines.WriteString(encoded[:76] + "\n")
		encoded = encoded[76:]
	}
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/plain\n\n" + text +
		"\n--b\nContent-Type: application/octet-stream\nContent-Disposition: attachment; filename=\"order.bin\"\n" +
		"Content-Transfer-Encoding: base64\n\n" + lines.String() + encoded + "\n--b--\n"
}

var suspicious = `Received: from client.example.org (client.example.org [198.51.100.9]) by mx.example.com (Postfix) with ESMTP id ABCDEF for <bob@example.com>; Tue, 3 Mar 2026 10:00:00 +0000
From: Ann <ann@shop.example>
Reply-To: mallory@example.org
To: bob@example.com
Subject: hello
Message-ID: <1@shop.example>
Date: Tue, 3 Mar 2026 10:00:00 +0000
` + parts("Please visit http://www.spam-shop.com/offer today, see http://lamps-today.com/order, or write to "+
	"mallory@example.org.")

const innocent = `Received: from client.example.org (client.example.org [203.0.113.9]) by mx.example.com (Postfix) with ESMTP id ABCDEF for <bob@example.com>; Tue, 3 Mar 2026 10:00:00 +0000
From: Ann <ann@shop.example>
Reply-To: carol@example.org
To: bob@example.com
Subject: hello
Message-ID: <2@shop.example>
Date: Tue, 3 Mar 2026 10:00:00 +0000

Please visit http://www.good-shop.com/offer today, or write to carol@example.org.
`

// documented returns the block of lines of docs/protocols/dnsbl.md that begins with a text, for the
// zone of this test.
func documented(t *testing.T, begin string) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/protocols/dnsbl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(doc), "\n"+begin)
	block, _, ends := strings.Cut(block, "\n\n")
	if !found || !ends {
		t.Fatalf("docs/protocols/dnsbl.md has no lines %q", begin)
	}
	return strings.ReplaceAll(begin+block+"\n", "uri.live.example.com", "uri.live.bl.example.com")
}

// TestSpamAssassinAsks has SpamAssassin's own rules ask the lists: address and
// URL lists, and hashes as HashBL makes them; the live zone by the lines of docs/protocols/dnsbl.md.
func TestSpamAssassinAsks(t *testing.T) {
	sa := nodetest.Program(t, "spamassassin")
	n := dnsblNode(t)
	dir := t.TempDir()
	host, port, _ := strings.Cut(n.dns, ":")
	writeFile(t, dir+"/v.pre", `
loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::DNSEval
loadplugin Mail::SpamAssassin::Plugin::URIDNSBL
loadplugin Mail::SpamAssassin::Plugin::HashBL
`)
	writeFile(t, dir+"/local.cf", `
dns_available yes
dns_server [%s]:%s
rbl_timeout 60 60
use_bayes 0
report_safe 0
clear_headers
add_header all Tests _TESTS_
util_rb_tld com net org example
header IP_LIST eval:check_rbl('bh-lastexternal', 'ip.bl.example.com.', '^127\.0\.0\.3$')
tflags IP_LIST net
urirhssub URI_LIST domain.bl.example.com. A 127.0.0.2
body URI_LIST eval:check_uridnsbl('URI_LIST')
tflags URI_LIST net
header HASH_MD5 eval:check_hashbl_emails('md5.bl.example.com', 'md5', 'ALLFROM/Reply-To/body', '^127\.0\.0\.4$')
header HASH_SHA1 eval:check_hashbl_emails('sha1.bl.example.com', 'sha1', 'ALLFROM/Reply-To/body', '^127\.0\.0\.5$')
header HASH_SHA256 eval:check_hashbl_emails('sha256.bl.example.com', 'sha256', 'ALLFROM/Reply-To/body', '^127\.0\.0\.6$')
tflags HASH_MD5 net
header RELAY eval:check_rbl('all-lastexternal', 'all.bl.example.com.', '^127\.0\.0\.3$')
header HOME eval:check_rbl_sub('all-lastexternal', '^127\.0\.0\.10$')
tflags RELAY net
tflags HOME net
tflags HASH_SHA1 net
tflags HASH_SHA256 net
body LIVE_FILE eval:check_hashbl_attachments('file.live.bl.example.com', 'sha256', '^127\.0\.0\.2$')
tflags LIVE_FILE net
%s`, host, port, documented(t, "    urirhssub BH_LIVE"))
	for _, tt := range []struct {
		name, message string
		hits          bool
	}{{"suspicious", suspicious, true}, {"innocent", innocent, false}} {
		cmd := exec.Command(sa, "-x", "--siteconfigpath="+dir, "--configpath="+dir)
		cmd.Stdin = strings.NewReader(tt.message)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, rule := range []string{"IP_LIST", "URI_LIST", "HASH_MD5", "HASH_SHA1", "HASH_SHA256", "RELAY", "HOME",
			"LIVE_FILE", "BH_LIVE"} {
			if got := strings.Contains(string(out), rule); got != tt.hits {
				t.Errorf("%s: %s hits: %v, want %v\n%s", tt.name, rule, got, tt.hits, tail(string(out), 2500))
			}
		}
	}
}

// TestRspamdAsks has the rbl module of rspamd ask the lists.
func TestRspamdAsks(t *testing.T) {
	n := dnsblNode(t)
	r := nodetest.StartRspamd(t, n.dns+":1", "", `
lua = "${RULESDIR}/rspamd.lua";
group "rbl" { }
rbl {
  default_exclude_users = false;
  default_exclude_private_ips = false;
  rbls {
    bh_ip { rbl = "ip.bl.example.com"; symbol = "BH_IP"; ipv4 = true; from = true; checks = ["from"];
      returncodes { BH_IP = "127.0.0.3"; } }
    bh_url { rbl = "domain.bl.example.com"; symbol = "BH_URL"; checks = ["urls"];
      returncodes { BH_URL = "127.0.0.2"; } }
    bh_md5 { rbl = "md5.bl.example.com"; symbol = "BH_MD5"; checks = ["emails", "replyto"]; hash = "md5";
      returncodes { BH_MD5 = "127.0.0.4"; } }
    bh_sha1 { rbl = "sha1.bl.example.com"; symbol = "BH_SHA1"; checks = ["emails", "replyto"]; hash = "sha1";
      returncodes { BH_SHA1 = "127.0.0.5"; } }
    bh_sha256 { rbl = "sha256.bl.example.com"; symbol = "BH_SHA256"; checks = ["emails", "replyto"];
      hash = "sha256"; hash_format = "base32"; returncodes { BH_SHA256 = "127.0.0.6"; } }
    bh_all { rbl = "all.bl.example.com"; symbol = "BH_ALL"; ipv4 = true; from = true; checks = ["from"];
      returncodes { BH_RELAY = "127.0.0.3"; BH_HOME = "127.0.0.10"; } }
`+documented(t, "    bh_live")+`  }
}
modules { path = "${PLUGINSDIR}/rbl.lua"; }
`)
	for _, tt := range []struct {
		name, message, ip string
		hits              bool
	}{{"suspicious", suspicious, "198.51.100.9", true}, {"innocent", innocent, "203.0.113.9", false}} {
		symbols := r.Scan(tt.message, "IP", tt.ip).Symbols
		for _, symbol := range []string{"BH_IP", "BH_URL", "BH_MD5", "BH_SHA1", "BH_SHA256", "BH_RELAY", "BH_HOME",
			"BH_LIVE"} {
			if _, got := symbols[symbol]; got != tt.hits {
				t.Errorf("%s: %s hits: %v, want %v: %v", tt.name, symbol, got, tt.hits, symbols)
			}
		}
	}
}

// TestDig asks with the tool of another name server's project.
func TestDig(t *testing.T) {
	dig := nodetest.Program(t, "dig")
	n := dnsblNode(t)
	host, port, _ := strings.Cut(n.dns, ":")
	ask := func(args ...string) string {
		return run(t, "/", dig, append([]string{"@" + host, "-p", port, "+tries=2", "+time=30"}, args...)...)
	}
	built := regexp.MustCompile(`(?m)^built +([0-9-]{10})T`).FindStringSubmatch(n.bulkhead(t, "", "list", "info",
		filepath.Join(n.dir, "domain.list")))
	if built == nil {
		t.Fatal("the list has no date")
	}
	sum1, sum2, sum3 := md5.Sum([]byte("mallory@example.org")), sha1.Sum([]byte("mallory@example.org")),
		sha256.Sum256([]byte("mallory@example.org"))
	base := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum3[:])
	for _, tt := range []struct{ name, kind, want string }{
		{"spam-shop.com.domain.bl.example.com", "A", "127.0.0.2"},
		{"www.spam-shop.com.domain.bl.example.com", "TXT",
			"made up: domain (list domain of " + built[1]},
		{"good.com.domain.bl.example.com", "A", "status: NXDOMAIN"},
		{"9.100.51.198.ip.bl.example.com", "A", "127.0.0.3"},
		{"9.100.51.197.ip.bl.example.com", "A", "hostmaster.ip.bl.example.com"},
		{hex.EncodeToString(sum1[:]) + ".md5.bl.example.com", "A", "127.0.0.4"},
		{hex.EncodeToString(sum2[:]) + ".sha1.bl.example.com", "A", "127.0.0.5"},
		{strings.ToLower(base) + ".sha256.bl.example.com", "A", "127.0.0.6"},
		{"example.org", "A", "status: REFUSED"},
	} {
		for _, transport := range []string{"+notcp", "+tcp"} {
			if out := ask(transport, tt.name, tt.kind); !strings.Contains(out, tt.want) ||
				strings.Contains(out, "WARNING") && !strings.Contains(out, "recursion requested") {
				t.Errorf("%s %s %s:\n%s\nwant %q", transport, tt.name, tt.kind, out, tt.want)
			}
		}
	}
}
