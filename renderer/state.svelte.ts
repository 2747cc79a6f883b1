/**
 * What the page knows of the engine (clusters, runs, catalogue, preferences) and what is selected. Read anew after
 * every reconnect and whenever the engine says that something changed. One run's data is run-view.svelte.ts.
 */
import type {
  Cluster,
  ClusterInput,
  Events,
  Info,
  MetricInfo,
  RunSummary,
  Ticked,
  WhyQuery,
} from '../electron/engine/api.ts';
import type { Client } from '../electron/engine/rpc.ts';
import { connect, takeToken, type Link } from './connect.ts';
import { panelsFor } from './panels.ts';
import { isKind, sentence } from './sentence.ts';
import { RunView } from './run-view.svelte.ts';
import { Uploads } from './upload.svelte.ts';
import { WhyNumber } from './why.svelte.ts';

export type Selection =
  { view: 'run'; id: string } | { view: 'cluster'; id: string } | { view: 'runs' } | { view: 'empty' };

/** The views of a run. */
export type Tab = 'timelines' | 'scalars' | 'workers' | 'events';

/** What stands over the page. */
export type Over = 'add-cluster' | 'panels' | 'steps' | 'keys' | 'settings' | null;

/** A dialog about a cluster; `secrets`: to edit it, beginning with what is secret. */
export interface Asking {
  about: 'edit' | 'secrets' | 'pause' | 'remove';
  cluster: Cluster;
}

class Scope {
  link = $state<Link>('connecting');
  /** Everything was read at least once. */
  ready = $state(false);
  info = $state.raw<Info | null>(null);
  catalogue = $state.raw<MetricInfo[]>([]);
  preferences = $state.raw<Record<string, unknown>>({});
  clusters = $state.raw<Cluster[]>([]);
  runs = $state.raw<RunSummary[]>([]);
  /** Last tick of each cluster. */
  ticks = $state.raw<Record<string, Ticked>>({});
  /** Long work of the engine that goes on, by the name of the task. */
  progress = $state.raw<Record<string, Events['progress']>>({});
  selection = $state.raw<Selection>({ view: 'empty' });
  run = $state.raw<RunView | null>(null);
  tab = $state<Tab>('timelines');
  over = $state<Over>(null);
  asking = $state.raw<Asking | null>(null);
  /** A fault of the whole: stays until dismissed or over. */
  fault = $state<string | null>(null);
  sidebar = $state<boolean | null>(null);
  /** The drawer "why this number". */
  readonly why = new WhyNumber(() => this.methods);
  readonly uploads = new Uploads(
    () => this.methods,
    () => this.runs,
  );

  #client: Client | null = null;
  #opening: AbortController | null = null;
  #clustersAt = 0;
  #clustersOld = false;

  get methods() {
    if (!this.#client) throw new Error('not started');
    return this.#client.methods;
  }

  /** The run shown, as the list has it. */
  get shownRun(): RunSummary | null {
    const s = this.selection;
    return s.view === 'run' ? (this.runs.find((r) => r.id === s.id) ?? null) : null;
  }

  /** The cluster that the selection belongs to. */
  get shownCluster(): Cluster | null {
    const s = this.selection;
    const id = s.view === 'cluster' ? s.id : this.shownRun?.clusterId;
    return this.clusters.find((c) => c.id === id) ?? null;
  }

  /** Opens the drawer about a number: whatever shows one calls it. */
  explain(query: WhyQuery) {
    void this.why.ask(query);
  }

  start() {
    const hash = new URLSearchParams(location.hash.slice(1));
    const client = connect(takeToken(), (link) => {
      this.link = link;
      if (link === 'open') void this.#readAll(hash.get('run'));
    });
    this.#client = client;
    client.on('ticked', (t) => this.#ticked(t));
    client.on('changed', ({ what }) => {
      if (what === 'clusters') void this.#try(() => this.#readClusters());
      else void this.#try(() => this.#readRuns());
    });
    client.on('stepped', ({ run }) => {
      if (run === this.run?.run.id) void this.run.steps.load();
    });
    client.on('uploading', (upload) => this.uploads.take(upload));
    client.on('progress', (p) => {
      const others = Object.entries(this.progress).filter(([task]) => task !== p.task);
      this.progress = Object.fromEntries(p.done >= p.total ? others : [...others, [p.task, p]]);
    });
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.run?.shownAgain();
    });
  }

  async #try(act: () => Promise<unknown>): Promise<boolean> {
    try {
      await act();
      return true;
    } catch (error) {
      // engine-gone has its own bar; a cancelled call was taken back by the page itself
      if (!isKind(error, 'engine-gone') && !isKind(error, 'cancelled')) this.fault = sentence(error);
      return false;
    }
  }

  async #readAll(wanted: string | null) {
    await this.#try(async () => {
      const m = this.methods;
      [this.info, this.catalogue, this.preferences, this.clusters, this.runs] = await Promise.all([
        m.info(),
        m.catalogue(),
        m.preferences(),
        m.listClusters(),
        m.listRuns(),
      ]);
      const first = !this.ready;
      this.ready = true;
      const s = this.selection;
      if (first) this.select(this.#firstSelection(wanted));
      else if (s.view === 'run') {
        // who followed a recording goes on with the one that took its place
        const next =
          this.run?.following && this.shownRun?.state !== 'recording' && this.shownCluster?.recording;
        if (next) this.select({ view: 'run', id: next });
        else await this.#open(s.id);
      }
      this.#tidy();
    });
  }

  #firstSelection(wanted: string | null): Selection {
    const recording = this.clusters.find((c) => c.recording !== null)?.recording;
    const id = this.runs.find((r) => r.id === wanted)?.id ?? recording;
    if (id) return { view: 'run', id };
    const cluster = this.clusters[0];
    if (cluster) return { view: 'cluster', id: cluster.id };
    const last = this.#newestFirst(this.runs)[0];
    return last ? { view: 'run', id: last.id } : { view: 'empty' };
  }

  async readInfo() {
    await this.#try(async () => (this.info = await this.methods.info()));
  }

  async #readClusters() {
    this.#clustersAt = performance.now();
    this.#clustersOld = false;
    this.clusters = await this.methods.listClusters();
    this.#tidy();
  }

  async #readRuns() {
    this.runs = await this.methods.listRuns();
    const shown = this.shownRun;
    if (shown && this.run && shown.state !== this.run.run.state) await this.run.refresh();
    this.#tidy();
  }

  /** After clusters or runs changed: what is selected may be gone, or have begun to record. */
  #tidy() {
    const s = this.selection;
    if (s.view === 'cluster') {
      const cluster = this.clusters.find((c) => c.id === s.id);
      if (!cluster) this.select(this.#firstSelection(null));
      else if (this.awaited === cluster.id && cluster.recording !== null) {
        this.awaited = null;
        this.select({ view: 'run', id: cluster.recording });
      }
    } else if (s.view === 'empty' && (this.clusters.length > 0 || this.runs.length > 0))
      this.select(this.#firstSelection(null));
  }

  /** A cluster just added or told to record: its run is shown when it begins. */
  awaited: string | null = null;

  newestFirst = (runs: RunSummary[]) => this.#newestFirst(runs);
  #newestFirst(runs: RunSummary[]) {
    return [...runs].sort((a, b) => b.startedAt - a.startedAt);
  }

  // ---------------------------------------------------------------- what is shown

  select(s: Selection) {
    this.selection = s;
    const hash = s.view === 'run' ? `#run=${encodeURIComponent(s.id)}` : '';
    history.replaceState(null, '', location.pathname + location.search + hash);
    if (s.view === 'run') void this.#open(s.id);
    else this.#show(null);
  }

  /** A cluster's run where it records, otherwise how its endpoints stand. */
  selectCluster(c: Cluster) {
    this.select(c.recording === null ? { view: 'cluster', id: c.id } : { view: 'run', id: c.recording });
  }

  #show(view: RunView | null) {
    this.#opening?.abort();
    this.#opening = null;
    if (this.run !== view) this.run?.close();
    this.run = view;
    view?.start();
  }

  async #open(id: string) {
    this.#opening?.abort();
    const control = new AbortController();
    this.#opening = control;
    const before = this.run?.run.id === id ? this.run : null;
    if (!before) this.#showNothing();
    await this.#try(async () => {
      const run = await this.methods.getRun(id, control.signal);
      if (control.signal.aborted) return;
      const view = new RunView(this.methods, run, this.panelsOf(run.clusterId));
      if (before) {
        // a reconnect: everything is read anew, but what the person looks at stays
        view.focus = before.focus;
        view.isolated = before.isolated;
        view.eventList = before.eventList;
        view.plotWidth = before.plotWidth;
        view.range = before.range;
        view.steps.goOnFrom(before.steps);
        view.kept = before.kept;
        view.version = 1;
        if (before.range === null || !before.following) {
          view.window = before.window;
          view.following = before.following && run.state === 'recording';
        }
      }
      this.#show(view);
    });
  }

  #showNothing() {
    this.run?.close();
    this.run = null;
  }

  // ---------------------------------------------------------------- preferences

  panelsOf(clusterId: string): MetricInfo[] {
    return panelsFor(this.catalogue, this.preferences[`panels:${clusterId}`]);
  }

  /** null: those that are on by themselves. */
  setPanels(clusterId: string, order: string[] | null) {
    this.prefer(`panels:${clusterId}`, order);
    this.run?.showMetrics(this.panelsOf(clusterId));
  }

  /** Panels with a logarithmic axis. */
  logsOf(clusterId: string): string[] {
    const chosen = this.preferences[`log:${clusterId}`];
    return Array.isArray(chosen) ? chosen.filter((id): id is string => typeof id === 'string') : [];
  }

  /** Only times spread over decades; a logarithm of a count or a share would hide its zero. */
  toggleLog(clusterId: string, metric: string) {
    if (this.catalogue.find((m) => m.id === metric)?.unit !== 's') return;
    const now = this.logsOf(clusterId);
    this.prefer(
      `log:${clusterId}`,
      now.includes(metric) ? now.filter((id) => id !== metric) : [...now, metric],
    );
  }

  /** In a narrow window it comes over the page, in a wide one it folds away and that is remembered. */
  toggleSidebar() {
    if (matchMedia('(max-width: 75em)').matches) this.sidebar = this.sidebar === true ? null : true;
    else this.prefer('sidebar', !this.switchedOn('sidebar'));
  }

  /** Shown at once, stored behind. */
  prefer(key: string, value: unknown) {
    this.preferences = { ...this.preferences, [key]: value };
    void this.#try(() => this.methods.setPreference(key, value));
  }

  preferred(key: string, otherwise: string): string {
    const v = this.preferences[key];
    return typeof v === 'string' ? v : otherwise;
  }

  switchedOn(key: string): boolean {
    return this.preferences[key] !== false;
  }

  // ---------------------------------------------------------------- acts

  #ticked(t: Ticked) {
    const before = this.ticks[t.cluster];
    this.ticks = { ...this.ticks, [t.cluster]: t };
    this.run?.ticked(t);
    // ticks say how many answer, not which: how each endpoint stands is read when that changes, or is looked at
    this.#clustersOld ||= before?.answered !== t.answered || before.workers !== t.workers;
    const looking = this.selection.view === 'cluster' || t.answered < t.endpoints;
    const age = performance.now() - this.#clustersAt;
    if ((this.#clustersOld && age > 900) || (looking && age > 2500))
      void this.#try(() => this.#readClusters());
  }

  /** Throws what the engine refuses: the form shows it at the field. */
  async addCluster(input: ClusterInput) {
    const cluster = await this.methods.addCluster(input);
    if (!this.clusters.some((c) => c.id === cluster.id)) this.clusters = [...this.clusters, cluster];
    this.over = null;
    // its run is new: there are no events to look at yet
    this.tab = 'timelines';
    this.awaited = cluster.id;
    this.select({ view: 'cluster', id: cluster.id });
    await this.#try(() => this.#readClusters());
  }

  /** Throws what the engine refuses. Who looked at the run that another interval ended goes on with the next one. */
  async updateCluster(id: string, input: ClusterInput) {
    const followed = this.clusters.find((c) => c.id === id)?.recording;
    const cluster = await this.methods.updateCluster(id, input);
    this.asking = null;
    await this.#try(() => Promise.all([this.#readRuns(), this.#readClusters()]));
    const s = this.selection;
    const next = cluster.recording;
    if (s.view === 'run' && s.id === followed && next !== null && next !== followed)
      this.select({ view: 'run', id: next });
  }

  async removeCluster(id: string) {
    await this.#try(() => this.methods.removeCluster(id));
    await this.#try(() => this.#readClusters());
    // after it is gone from the page: the focus must not go back to it
    this.asking = null;
  }

  /** Ends its run: asks where there is one. */
  pause(c: Cluster) {
    if (c.recording === null) void this.setConnected(c, false);
    else this.asking = { about: 'pause', cluster: c };
  }

  async setConnected(c: Cluster, on: boolean) {
    this.asking = null;
    await this.#try(() => (on ? this.methods.connectCluster(c.id) : this.methods.disconnectCluster(c.id)));
    await this.#try(() => this.#readClusters());
  }

  async record(c: Cluster) {
    await this.#try(async () => {
      if (!c.connected) await this.methods.connectCluster(c.id);
      const run = await this.methods.startRecording(c.id, null);
      await Promise.all([this.#readRuns(), this.#readClusters()]);
      this.tab = 'timelines';
      this.select({ view: 'run', id: run.id });
    });
  }

  async stop(c: Cluster) {
    await this.#try(async () => {
      await this.methods.stopRecording(c.id);
      await Promise.all([this.#readRuns(), this.#readClusters()]);
    });
  }

  async setRecord(c: Cluster, record: boolean) {
    await this.#try(() => this.methods.setRecord(c.id, record));
    await this.#try(() => this.#readClusters());
  }

  async renameRun(id: string, name: string) {
    const renamed = await this.methods.renameRun(id, name);
    this.runs = this.runs.map((r) => (r.id === id ? renamed : r));
    if (this.run?.run.id === id) this.run.run = { ...this.run.run, name: renamed.name };
  }
}

export const scope = new Scope();
