package node

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// SecretFiles returns the files that a backup omits, because secrets must not be kept with counts.
func SecretFiles() []string {
	return []string{networkKeyFile, pastKeysFile, sealKeyFile, AdminTokenFile, meshFolder + "/"}
}

// Backup writes a consistent copy of everything that the node of a data folder has acknowledged to
// w, and returns its description. The node may run.
func Backup(ctx context.Context, dir string, w io.Writer) (store.BackupInfo, error) {
	return store.Backup(ctx, filepath.Join(dir, StoreFolder), w)
}

// Restore restores the store of a data folder without one from a backup. missing are the key files
// that must be put back before the node starts.
func Restore(ctx context.Context, in io.Reader, dir string) (info store.BackupInfo, missing []string, err error) {
	if err := ownFolder(dir); err != nil {
		return info, nil, err
	}
	if err := wholefile.MakeFolder(dir); err != nil {
		return info, nil, err
	}
	if info, err = store.Restore(ctx, in, filepath.Join(dir, StoreFolder), store.Options{}); err != nil {
		return info, nil, err
	}
	for _, name := range []string{networkKeyFile, sealKeyFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, name)
		}
	}
	return info, missing, nil
}
