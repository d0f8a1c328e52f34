package world

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Facts describe the machine and the server, without which a figure means little.
type Facts struct {
	When       string            `json:"when"`
	Processor  string            `json:"processor"`
	Cores      int               `json:"cores"`
	Memory     string            `json:"memory"`
	Kernel     string            `json:"kernel"`
	FileSystem string            `json:"file_system"` // of PostgreSQL's data
	Flush      time.Duration     `json:"flush"`       // median of writing 8 KiB and flushing them there
	Load       string            `json:"load"`        // the machine's load average before the run
	Go         string            `json:"go"`
	PostgreSQL string            `json:"postgresql"`
	Settings   map[string]string `json:"settings"`
	Env        []string          `json:"env"` // of the gateway, beside its defaults
}

// Facts reads the facts of the machine and the server.
func (w *World) Facts(ctx context.Context, d *Database) (Facts, error) {
	set, err := d.Settings(ctx)
	if err != nil {
		return Facts{}, err
	}
	flush, err := flushTime(w.DataDir())
	if err != nil {
		return Facts{}, err
	}
	return Facts{
		When:       time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Processor:  valueIn("/proc/cpuinfo", "model name"),
		Cores:      runtime.NumCPU(),
		Memory:     valueIn("/proc/meminfo", "MemTotal"),
		Kernel:     firstLine("/proc/sys/kernel/osrelease"),
		FileSystem: FileSystem(w.DataDir()),
		Flush:      flush,
		Load:       firstLine("/proc/loadavg"),
		Go:         runtime.Version(),
		PostgreSQL: w.Version(),
		Settings:   set,
		Env:        w.Env,
	}, nil
}

// Markdown returns a paragraph about the machine and one about PostgreSQL. shared says what shares the cores.
func (f Facts) Markdown(shared string) string {
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(f.Settings)) {
		settings = append(settings, name+"="+f.Settings[name])
	}
	return fmt.Sprintf("%s. %s, %d cores, %s; Linux %s; %s, PostgreSQL %s on %s (8 KiB written and flushed in %v).\n"+
		"Load average before: %s. %s\n\nPostgreSQL: %s.\n", f.When, f.Processor, f.Cores, f.Memory, f.Kernel, f.Go,
		f.PostgreSQL, f.FileSystem, f.Flush, f.Load, shared, strings.Join(settings, ", "))
}

// flushTime measures the least time that a commit takes.
func flushTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "flush")
	if err != nil {
		return 0, fmt.Errorf("time the disk: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 8<<10)
	var took []time.Duration
	for range 200 {
		began := time.Now()
		if _, err = f.WriteAt(page, 0); err == nil {
			err = f.Sync()
		}
		if err != nil {
			return 0, fmt.Errorf("time the disk: %w", err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Microsecond), nil
}

// FileSystem returns the kind of file system that a folder is on; empty if it is not known.
func FileSystem(dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	kind, longest := "", 0
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < longest {
			continue
		}
		if rest, under := strings.CutPrefix(dir, f[1]); under && (f[1] == "/" || rest == "" || rest[0] == '/') {
			kind, longest = f[2], len(f[1])
		}
	}
	return kind
}

func valueIn(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// ticksPerSecond is the unit of /proc's times: 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// CPU returns the processor time that the process has used so far.
func (p *Process) CPU() time.Duration { return cpuOf(p.cmd.Process.Pid) }

// Resident returns the process's resident memory, in bytes.
func (p *Process) Resident() int64 {
	text := valueIn("/proc/"+strconv.Itoa(p.cmd.Process.Pid)+"/status", "VmRSS")
	kib, err := strconv.ParseInt(strings.TrimSuffix(text, " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

func cpuOf(pid int) time.Duration { return ticks(pid, 11, 12) }

// ticks adds up fields of a process's stat that are times.
func ticks(pid int, fields ...int) time.Duration {
	stat := statOf(pid)
	var sum int64
	for _, f := range fields {
		if f < len(stat) {
			n, _ := strconv.ParseInt(stat[f], 10, 64) // a text counts as 0
			sum += n
		}
	}
	return time.Duration(sum) * time.Second / ticksPerSecond
}

// statOf returns the fields of a process's stat from the third on: the second, its name, may contain blanks.
func statOf(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// PostgresCPU returns the processor time that the server's processes have used so far, including those that have
// ended.
func (w *World) PostgresCPU() time.Duration {
	text, err := os.ReadFile(filepath.Join(w.DataDir(), "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	sum := ticks(postmaster, 11, 12, 13, 14) // the last two are of children that have ended
	entries, _ := os.ReadDir("/proc")        // without it the figure is 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := statOf(pid); len(f) > 1 && f[1] == strconv.Itoa(postmaster) {
			sum += cpuOf(pid)
		}
	}
	return sum
}
