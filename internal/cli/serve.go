package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func init() { register(serveCommand, workerCommand, envCommand) }

func serveCommand(a *app) *cobra.Command {
	var f flightFlags
	var o operatorFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Keep the embedded services up in the foreground",
		Long:  "Serve runs the embedded Temporal server, its web page, the store and the\nworkers until Ctrl-C. Other commands on the same home attach to it, builds can\nbe detached, and schedules run.\n\nAn Arrow Flight endpoint streams the views of every version to trainers, which\nneed its token and no key of the store.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f, o) },
	}
	f.add(cmd)
	o.add(cmd)
	a.addLogFlag(cmd)
	a.addSandboxFlags(cmd)
	a.addCommandsFlag(cmd)
	a.addPolicyFlag(cmd)
	a.addLaunchersFlag(cmd)
	return cmd
}

func (a *app) serve(ctx context.Context, f flightFlags, o operatorFlags) error {
	if a.remoteTemporal() {
		return usage("serve runs the embedded services; on a Temporal server of your own run: stillhouse worker")
	}
	if err := f.check(); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := a.checkLogFormat(); err != nil {
		return err
	}
	if err := a.loadPolicy(); err != nil {
		return err
	}
	s, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.close()
	if !s.owns() {
		return usage("process %d serves home %s already", s.endpoints.PID, s.home.Dir)
	}
	health, err := startOperator(o, s.readyChecks())
	if err != nil {
		return err
	}
	defer health.endWith(s)
	rows, err := s.startFlight(f)
	if err != nil {
		return err
	}
	defer rows.stop()
	a.say("Temporal  %s\nweb page  %s\nstore     %s (stillhouse env prints its keys)\nFlight    %s%s\nhome      %s\nCtrl-C ends them; what is under way goes on at the next start",
		s.endpoints.Temporal, s.endpoints.UI, s.endpoints.S3, rows.where(), health.where()+a.historyKey(), s.home.Dir)
	select {
	case <-a.interrupted:
		health.drain()
		a.say("stopping: answers in flight have up to %s to arrive", drainLimit)
		return nil
	case <-s.services.Done():
		return fmt.Errorf("an embedded service died: %w", s.services.Err())
	case err := <-rows.ended():
		return fmt.Errorf("the Arrow Flight endpoint died: %w", err)
	case err := <-health.ended():
		return fmt.Errorf("the address of --listen died: %w", err)
	}
}

func workerCommand(a *app) *cobra.Command {
	var only, role string
	var o operatorFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Work for a Temporal cluster",
		Long:  "Worker serves the builds of a Temporal cluster (--temporal, --store). It serves\nall teachers, or with --teachers only those: a teacher inside a private network\nis served by workers that run there and hold its key.\n\nIt carries out the recipes of whoever may start a workflow on that server. What\nit may do for them, --policy FILE says: whom it asks with which key, what it reads,\nwhich commands and launchers it runs. Without one it asks whom a recipe names and\nruns neither.\n\nWith --role sandbox it only runs the code of answers (verifier code): such a\nworker needs a sandbox, the store and Temporal, but no key and no teacher.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.work(cmd.Context(), role, only, o) },
	}
	o.add(cmd)
	a.addLogFlag(cmd)
	a.addSandboxFlags(cmd)
	a.addPolicyFlag(cmd)
	a.addLaunchersFlag(cmd)
	cmd.Flags().StringVar(&role, "role", roleAll, "what to serve: all, or sandbox for running the code of answers alone")
	cmd.Flags().StringVar(&only, "teachers", "", "ids of the teachers to serve, separated by commas (default: all)")
	return cmd
}

func (a *app) work(ctx context.Context, role, only string, o operatorFlags) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := a.checkLogFormat(); err != nil {
		return err
	}
	switch {
	case role != roleAll && role != roleSandbox:
		return usage("--role %s: want all or sandbox", role)
	case role == roleSandbox && only != "":
		return usage("--role sandbox serves no teacher; leave out --teachers")
	}
	if !a.remoteTemporal() {
		return usage("worker needs a Temporal server: --temporal HOST:PORT; for the embedded one run: stillhouse serve")
	}
	if err := a.loadPolicy(); err != nil {
		return err
	}
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	lock, err := s.home.Lock()
	if err != nil {
		return fmt.Errorf("each worker on a machine needs a home of its own: %w", err)
	}
	s.lock = lock
	if err := s.needAttributes(ctx); err != nil {
		return err
	}
	var ids []string
	if only != "" {
		for _, id := range strings.Split(only, ",") {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	if s.workers, err = startWorkers(ctx, s, role, ids); err != nil {
		return err
	}
	if a.policy == nil && role == roleAll {
		a.warn("warning: without --policy, whoever may start a workflow on this server decides to which address this worker's keys go")
	}
	health, err := startOperator(o, s.readyChecks())
	if err != nil {
		return err
	}
	defer health.endWith(s)
	a.say("working for %s on %s; Ctrl-C drains and ends%s", s.namespace(), s.bucket, health.where()+a.historyKey())
	select {
	case <-a.interrupted:
		health.drain()
		a.say("stopping: answers in flight have up to %s to arrive", drainLimit)
		return nil
	case err := <-health.ended():
		return fmt.Errorf("the address of --listen died: %w", err)
	}
}

func envCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print the embedded store's endpoint and keys, for other tools",
		Long:  "Env prints shell assignments that aws, DuckDB, pyarrow and s3fs understand. It\nis the only command that prints keys. The endpoint is up while stillhouse serve\nor a build runs.\n\n  eval \"$(stillhouse env)\"",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.printEnv(cmd.Context()) },
	}
}

func (a *app) printEnv(ctx context.Context) error {
	h, err := a.openHome()
	if err != nil {
		return err
	}
	e, err := h.ReadEndpoints(ctx)
	if err != nil {
		return usage("%v", err)
	}
	if a.json {
		return a.printJSON(map[string]string{
			"AWS_ENDPOINT_URL": e.S3, "AWS_ENDPOINT_URL_S3": e.S3, "AWS_ACCESS_KEY_ID": e.AccessKey, "AWS_SECRET_ACCESS_KEY": e.SecretKey,
			"AWS_REGION": e.Region, "AWS_DEFAULT_REGION": e.Region, "STILLHOUSE_BUCKET": e.Bucket,
			"TEMPORAL_ADDRESS": e.Temporal, "TEMPORAL_NAMESPACE": e.Namespace, "STILLHOUSE_TEMPORAL_UI": e.UI,
			"STILLHOUSE_TEMPORAL_TOKEN": e.Token, "STILLHOUSE_FLIGHT": e.Flight, "STILLHOUSE_FLIGHT_TOKEN": e.FlightToken,
		})
	}
	for _, v := range [][2]string{
		{"AWS_ENDPOINT_URL", e.S3}, {"AWS_ENDPOINT_URL_S3", e.S3}, {"AWS_ACCESS_KEY_ID", e.AccessKey}, {"AWS_SECRET_ACCESS_KEY", e.SecretKey},
		{"AWS_REGION", e.Region}, {"AWS_DEFAULT_REGION", e.Region}, {"STILLHOUSE_BUCKET", e.Bucket},
		{"STILLHOUSE_FLIGHT", e.Flight}, {"STILLHOUSE_FLIGHT_TOKEN", e.FlightToken},
	} {
		fmt.Fprintf(a.out, "export %s='%s'\n", v[0], v[1])
	}
	fmt.Fprintf(a.out, "# the datasets: s3://%s/datasets/   as files: %s\n# Temporal's page: %s\n", e.Bucket, oneLine(h.Path("store", e.Bucket)), e.UI)
	return nil
}
