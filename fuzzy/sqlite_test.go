//go:build linux

package fuzzy

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkSQLite is what SQLite takes to store digests, and texts with 32 shingles each, in the tables and
// indexes of rspamd's storage, on disk before the transaction ends: alone, and several in a transaction. rspamd
// itself acknowledges a write first, and stores it up to a minute later. The benchmark needs the program sqlite3,
// and writes to TMPDIR. This server's counterpart, network included, for digests and with --shingles for texts:
//
//	bulkhead-lab load fuzzy --op write --messages 0 --sockets 1 --window 64 --pid PID
func BenchmarkSQLite(b *testing.B) {
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		b.Skip(err)
	}
	const tables = `PRAGMA journal_mode=wal;
PRAGMA synchronous=full;
CREATE TABLE digests(id INTEGER PRIMARY KEY, flag INTEGER NOT NULL, digest TEXT NOT NULL, value INTEGER, time INTEGER);
CREATE TABLE shingles(value INTEGER NOT NULL, number INTEGER NOT NULL, digest_id INTEGER REFERENCES digests(id));
CREATE UNIQUE INDEX d ON digests(digest);
CREATE INDEX t ON digests(time, id);
CREATE INDEX dgst_id ON shingles(digest_id);
CREATE UNIQUE INDEX s ON shingles(value, number);
CREATE TEMP TABLE numbers AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 31) SELECT i FROM n;
`
	const digest = "INSERT INTO digests(flag, digest, value, time) VALUES(1, randomblob(64), 1, 0);\n"
	for _, what := range []struct {
		name, write string
		shingles    int
	}{
		{"digest", digest, 0},
		{"text", digest + "INSERT OR REPLACE INTO shingles SELECT random(), i, last_insert_rowid() FROM numbers;\n", 32},
	} {
		for _, together := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/together=%d", what.name, together), func(b *testing.B) {
				var script strings.Builder
				script.WriteString(tables)
				for done := 0; done < b.N; done += together {
					script.WriteString("BEGIN;\n" + strings.Repeat(what.write, min(together, b.N-done)) + "COMMIT;\n")
				}
				script.WriteString("SELECT count(*) FROM digests;\nSELECT count(*) FROM shingles;\n")
				cmd := exec.Command(program, "-batch", filepath.Join(b.TempDir(), "fuzzy.db"))
				cmd.Stdin = strings.NewReader(script.String())
				b.ResetTimer()
				out, err := cmd.CombinedOutput()
				b.StopTimer()
				if want := fmt.Sprintf("wal\n%d\n%d\n", b.N, what.shingles*b.N); err != nil || string(out) != want {
					b.Fatalf("%v: %.200q, want %q", err, out, want)
				}
				u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
				b.ReportMetric(float64(u.Utime.Nano()+u.Stime.Nano())/float64(b.N)/float64(time.Microsecond), "cpu-us/op")
			})
		}
	}
}
