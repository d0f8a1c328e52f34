package capture

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"webhook-gateway/internal/files"
)

// ScenarioFormat is the version of the format of scenarios.
const ScenarioFormat = "gateway.scenario/v1"

// Scenario is a sequence of captures, sent at offsets by several senders.
type Scenario struct {
	Format string `yaml:"format"`
	About  string `yaml:"about,omitempty"`
	Steps  []Step `yaml:"steps"`

	Name string `yaml:"-"` // the file's name without its ending
}

// Step sends a capture once or several times. Steps with the same offset are sent at the same time; a later offset
// waits until all earlier ones are answered. The steps of one sender share a connection and are sent one after the
// other.
type Step struct {
	Delivery string        `yaml:"delivery"` // the capture's folder, from the scenario's file
	Offset   time.Duration `yaml:"offset,omitempty"`
	Times    int           `yaml:"times,omitempty"` // at once; 1 unless given
	Sender   string        `yaml:"sender,omitempty"`
	Alter    *Alter        `yaml:"alter,omitempty"`
	Expect   Result        `yaml:"expect"` // in total; Status is that of each request

	Capture *Capture `yaml:"-"`
}

// LoadScenario reads a scenario and the captures that it names.
func LoadScenario(file string) (*Scenario, error) {
	s, err := loadScenario(file)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", file, err)
	}
	return s, nil
}

func loadScenario(file string) (*Scenario, error) {
	text, err := files.Read(file, maxDescription)
	if err != nil {
		return nil, err
	}
	s := &Scenario{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))}
	if err := decode(text, s); err != nil {
		return nil, err
	}
	if s.Format != ScenarioFormat {
		return nil, fmt.Errorf("the format is %.40q, and %s is what is read here", s.Format, ScenarioFormat)
	}
	var errs []error
	if len(s.Steps) == 0 {
		errs = append(errs, errors.New("it has no steps"))
	}
	var l loader
	loaded := make(map[string]*Capture)
	for i := range s.Steps {
		step := &s.Steps[i]
		if step.Times == 0 {
			step.Times = 1
		}
		c, ok := loaded[step.Delivery]
		if !ok {
			if c, err = l.load(filepath.Join(filepath.Dir(file), filepath.FromSlash(step.Delivery))); err != nil {
				errs = append(errs, fmt.Errorf("step %d: %w", i+1, err))
			}
			loaded[step.Delivery] = c
		}
		step.Capture = c
		for _, err := range step.check() {
			errs = append(errs, fmt.Errorf("step %d: %w", i+1, err))
		}
	}
	_, err = Parties(s.Captures())
	return s, joinFew(append(errs, err))
}

func (s *Step) check() []error {
	errs := s.Expect.check("expect")
	if s.Offset < 0 || s.Times < 1 || s.Times > 1000 {
		errs = append(errs, fmt.Errorf("offset %s, %d times: not before the beginning, and 1 to 1000 times", s.Offset, s.Times))
	}
	if s.Alter != nil {
		errs = append(errs, s.Alter.check()...)
	}
	if s.Capture != nil && s.Capture.Sign.Mode != Resign && s.Capture.Sign.Mode != Unsigned {
		errs = append(errs, errors.New("its delivery is not signed anew"))
	}
	return errs
}

// Captures returns the captures of the steps, each once.
func (s *Scenario) Captures() []*Capture {
	var list []*Capture
	for _, step := range s.Steps {
		if step.Capture != nil && !slices.Contains(list, step.Capture) {
			list = append(list, step.Capture)
		}
	}
	return list
}

// Beats groups the steps by their offset, the earliest first. Within a beat their order is the file's.
func (s *Scenario) Beats() [][]*Step {
	steps := make([]*Step, len(s.Steps))
	for i := range s.Steps {
		steps[i] = &s.Steps[i]
	}
	slices.SortStableFunc(steps, func(a, b *Step) int { return int(a.Offset - b.Offset) })
	var beats [][]*Step
	for i, step := range steps {
		if i == 0 || step.Offset != steps[i-1].Offset {
			beats = append(beats, nil)
		}
		beats[len(beats)-1] = append(beats[len(beats)-1], step)
	}
	return beats
}
