package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// write leaves the table and the raw figures in the folder for them. Those of a short run, which mean nothing, and
// those of a trial are not kept in the repository.
func (b *bench) write() error {
	name, end := "bench", ""
	switch {
	case b.size:
		name = "size"
	case b.short:
		name, end = "short", ".tmp"
	case b.trial():
		name, end = "trial", ".tmp"
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(b.report, "", " ")
	if err != nil {
		return err
	}
	table := b.report.Markdown()
	if b.size {
		table = b.report.SizeMarkdown()
	}
	if err := os.WriteFile(filepath.Join(b.out, name+".json"+end), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the raw figures: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.out, name+".md"+end), []byte(table), 0o644); err != nil {
		return fmt.Errorf("keep the table: %w", err)
	}
	_, err = fmt.Print(table)
	return err
}
