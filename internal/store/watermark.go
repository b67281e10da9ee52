package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
)

const (
	watermarkMagic   = "BHWM"
	watermarkVersion = 1
	watermarkBytes   = 36 // less than a sector, so that a disk writes it as a whole or not at all
)

// A watermark records how far the journal must reach. It is written after every entry and never
// synced: it survives the process at once, and the machine soon after.
//
// Layout, little-endian: magic 4, version u16, zero u16, epoch u64, acked u64, durable
// u64, CRC-32C of the foregoing u32.
type watermark struct {
	epoch   uint64
	acked   uint64 // last index that was acknowledged
	durable uint64 // last index that was known to be on disk at that time
}

func (m watermark) encode() []byte {
	b := make([]byte, 0, watermarkBytes)
	b = append(b, watermarkMagic...)
	b = binary.LittleEndian.AppendUint16(b, watermarkVersion)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint64(b, m.epoch)
	b = binary.LittleEndian.AppendUint64(b, m.acked)
	b = binary.LittleEndian.AppendUint64(b, m.durable)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeWatermark parses the output of encode; file is named in its errors.
func decodeWatermark(file string, b []byte) (watermark, error) {
	bad := func(offset int64, what string, args ...any) (watermark, error) {
		return watermark{}, &DamageError{file, offset, fmt.Sprintf(what, args...), adviceWatermark}
	}
	if len(b) != watermarkBytes {
		return bad(int64(min(len(b), watermarkBytes)), "%d bytes, want %d", len(b), watermarkBytes)
	}
	body := b[:watermarkBytes-4]
	if sum := binary.LittleEndian.Uint32(b[watermarkBytes-4:]); sum != crc32.Checksum(body, castagnoli) {
		return bad(0, "checksum mismatch")
	}
	if string(body[:4]) != watermarkMagic {
		return bad(0, "starts with %q, want %q", body[:4], watermarkMagic)
	}
	if v := binary.LittleEndian.Uint16(body[4:]); v != watermarkVersion || body[6] != 0 || body[7] != 0 {
		return watermark{}, fmt.Errorf("store: %s: %w: format %d, this program reads %d", file,
			formatOf(v > watermarkVersion), v, watermarkVersion)
	}
	m := watermark{
		epoch:   binary.LittleEndian.Uint64(body[8:]),
		acked:   binary.LittleEndian.Uint64(body[16:]),
		durable: binary.LittleEndian.Uint64(body[24:]),
	}
	if m.durable > m.acked {
		return bad(24, "durable index %d above acknowledged index %d", m.durable, m.acked)
	}
	return m, nil
}

// readWatermark reads the watermark, and reports whether the file exists.
func readWatermark(fsys FS, file string) (m watermark, found bool, err error) {
	f, err := openRead(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, found, nil
	}
	if err != nil {
		return m, found, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, watermarkBytes+1))
	if err != nil {
		return m, found, fmt.Errorf("store: %w", err)
	}
	m, err = decodeWatermark(file, b)
	return m, true, err
}
