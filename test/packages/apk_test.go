//go:build interop

package packages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// sections splits an apk into its gzip streams, each as it is in the file: the control
// section, and the data. Source: apk-package(5).
func sections(t *testing.T, file string) (all [][]byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data)
	for r.Len() > 0 {
		begin := len(data) - r.Len()
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		if _, err := io.Copy(io.Discard, z); err != nil {
			t.Fatal(err)
		}
		all = append(all, data[begin:len(data)-r.Len()])
	}
	return all
}

// TestAPK unpacks the apk as apk does and runs its scripts, on a machine with Debian's programs:
// Debian 12 has no apk. What Alpine names otherwise, addgroup and adduser of BusyBox, is played
// by a script.
func TestAPK(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	all := sections(t, dist(t, "bulkhead_*_"+arch+".apk"))
	if len(all) != 2 {
		t.Fatalf("%d sections, want control and data", len(all))
	}
	m := newMachine(t)
	for i, name := range []string{"control", "data"} {
		if err := os.WriteFile(m.root+"/tmp/"+name+".tar.gz", all[i], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m.must("mkdir /tmp/control && tar -xzf /tmp/control.tar.gz -C /tmp/control", "")
	info := m.must("cat /tmp/control/.PKGINFO", "pkgname = bulkhead")
	sum := sha256.Sum256(all[1])
	for _, line := range []string{"arch = " + arch, "license = MIT", "datahash = " + hex.EncodeToString(sum[:])} {
		if !strings.Contains(info, "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, info)
		}
	}
	if strings.Contains(info, "depend = ") {
		t.Errorf("it depends on something:\n%s", info)
	}
	m.must(`mkdir -p /usr/local/sbin
cat >/usr/local/sbin/addgroup <<'X'
#!/bin/sh
[ "$*" = "-S bulkhead" ] && exec groupadd --system bulkhead
X
cat >/usr/local/sbin/adduser <<'X'
#!/bin/sh
[ "$*" = "-S -D -H -h /var/lib/bulkhead -s /sbin/nologin -G bulkhead bulkhead" ] && exec useradd --system -M -d /var/lib/bulkhead -s /sbin/nologin -g bulkhead bulkhead
X
chmod 755 /usr/local/sbin/addgroup /usr/local/sbin/adduser
tar -xzf /tmp/data.tar.gz -C / --keep-directory-symlink
sh -e /tmp/control/.post-install 1`, "")
	m.must("stat -c '%a %U:%G' /etc/bulkhead/bulkhead.toml /etc/init.d/bulkhead", "640 root:bulkhead\n755 root:root")
	m.must(
		"test ! -e /usr/lib/systemd/system/bulkhead.service; ls /usr/share/zsh/site-functions/_bulkhead "+
			"/usr/share/licenses/bulkhead/LICENSE /usr/share/man/man1/bulkhead-doctor.1.gz", "")
	if out := m.must(serves, "check: 1"); !strings.Contains(out, "newly listed") {
		t.Errorf("the installed node: %s", out)
	}
	// An upgrade runs no script, and apk keeps a changed configuration; removal stops the service.
	m.must("sh -e /tmp/control/.post-install 2 1 && sh -e /tmp/control/.pre-deinstall 1", "")
	m.must(serves, "check: 1")
}
