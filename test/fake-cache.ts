/**
 * The KV cache of the stand-in engine: blocks in use, and blocks that are free but still remembered for prefix
 * reuse. As in vLLM those count as free, and are forgotten from the end of the least recently used prefix on when
 * new blocks are needed. Blocks of answers are forgotten at once (vLLM keeps them too; only a preempted request
 * would ever find them again, and its second look-up is not counted).
 */

/** A run of full blocks that several requests share. */
export interface Segment {
  blocks: number;
  /** How many of them the cache still has, from the front. */
  resident: number;
  users: number;
}

export interface Prompt {
  tokens: number;
  /** Starts every prompt of this engine. */
  system: Segment;
  /** What the answers to this one prompt share beyond that; the prompt's last block is never in it. */
  own: Segment;
}

export class KvCache {
  /** One block of num_gpu_blocks is the null block and never used. */
  readonly usable: number;
  free: number;
  /** Free blocks that are remembered, and whose they are, least recently used first. */
  private kept = 0;
  private idle = new Set<Segment>();

  constructor(blocks: number) {
    this.usable = blocks - 1;
    this.free = this.usable;
  }

  get usage(): number {
    return 1 - this.free / this.usable;
  }

  take(count: number): boolean {
    if (count > this.free) return false;
    let evict = count - (this.free - this.kept);
    this.free -= count;
    for (const segment of this.idle) {
      if (evict <= 0) break;
      const gone = Math.min(evict, segment.resident);
      segment.resident -= gone;
      this.kept -= gone;
      evict -= gone;
      if (segment.resident === 0) this.idle.delete(segment);
    }
    return true;
  }

  /** Takes a prompt's shared blocks and `ownBlocks` more: the blocks found in the cache, or -1 for no room. */
  admit(prompt: Prompt, ownBlocks: number): number {
    const { system, own } = prompt;
    const unused = (system.users ? 0 : system.resident) + (own.users ? 0 : own.resident);
    const missing = system.blocks - system.resident + own.blocks - own.resident;
    if (unused + missing + ownBlocks > this.free) return -1;
    const found = system.resident + (system.resident === system.blocks ? own.resident : 0);
    for (const segment of [system, own]) {
      if (segment.users++ > 0) continue;
      this.idle.delete(segment);
      this.kept -= segment.resident;
      this.free -= segment.resident;
    }
    this.take(missing + ownBlocks);
    system.resident = system.blocks;
    own.resident = own.blocks;
    return found;
  }

  release(prompt: Prompt, ownBlocks: number): void {
    this.free += ownBlocks;
    // The system prompt last: it was used by everybody and goes last when room is needed.
    for (const segment of [prompt.own, prompt.system]) {
      if (--segment.users > 0 || segment.resident === 0) continue;
      this.idle.add(segment);
      this.kept += segment.resident;
      this.free += segment.resident;
    }
  }

  /** What /reset_prefix_cache does: only an idle engine obeys. */
  forget(): boolean {
    if (this.free !== this.usable) return false;
    for (const segment of this.idle) segment.resident = 0;
    this.idle.clear();
    this.kept = 0;
    return true;
  }
}
