package recipe

// A StudentScore has the student say how likely accepted answers are to it,
// before it is trained on any.
type StudentScore struct {
	// Teacher of this recipe that serves the student: a vLLM server, which gives the log probabilities of a prompt's tokens. It is asked no tasks unless it says what it serves.
	Teacher string `yaml:"teacher" required:"true"`
	// Tasks of each domain and effort of which each teacher's first accepted answer is scored; always the same ones.
	Tasks int `yaml:"tasks" min:"1" max:"1000" default:"50"`
	// Parameters of how the conversation is rendered, such as chat_template_kwargs.
	Params map[string]any `yaml:"params"`
}

// StudentScore is the recipe's; nil where nobody scores.
func (r *Recipe) StudentScore() *StudentScore {
	if r.Student == nil {
		return nil
	}
	return r.Student.Score
}

// student checks that the student can be asked.
func (c *checker) student() {
	s := c.r.StudentScore()
	if s == nil {
		return
	}
	const at = "student.score.teacher"
	c.judgeTeacher(s.Teacher, at)
	if t := c.r.Teacher(s.Teacher); t != nil && t.API == APIAnthropic {
		c.fault(at, "teacher "+quote(s.Teacher)+" speaks the messages protocol, which has no log probabilities of a prompt", "name a teacher with api: openai that is a vLLM server")
	}
	for _, name := range []string{"model", "messages", "tools", "prompt_logprobs", "add_generation_prompt", "return_token_ids", "max_tokens", "max_completion_tokens", "n", "stream"} {
		if _, ok := s.Params[name]; ok {
			c.fault("student.score.params."+name, "is no parameter of rendering: scoring sets it itself", "remove it")
		}
	}
}
