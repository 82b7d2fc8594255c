package cli

import (
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/kube"
)

func init() {
	for kind, make := range map[string]func(kube.Config) (*kube.Launcher, error){
		"kubernetes": kube.NewJob, "trainjob": kube.NewTrainJob, "rayjob": kube.NewRayJob,
	} {
		launcherKinds[kind] = func(decode func(any) error) (launch.Launcher, error) {
			var c kube.Config
			if err := decode(&c); err != nil {
				return nil, err
			}
			return make(c)
		}
	}
}
