/** Runs one job at a time and keeps only the newest of those that came meanwhile. */
export class Latest {
  private running = false;
  private next: (() => Promise<void>) | undefined;

  /** `failed` is told of a job that throws. */
  constructor(private readonly failed: (reason: unknown) => void) {}

  run(job: () => Promise<void>): void {
    this.next = job;
    if (!this.running) {
      this.running = true;
      void this.drain();
    }
  }

  private async drain(): Promise<void> {
    for (let job = this.take(); job !== undefined; job = this.take()) {
      try {
        await job();
      } catch (reason) {
        this.failed(reason);
      }
    }
    this.running = false;
  }

  private take(): (() => Promise<void>) | undefined {
    const job = this.next;
    this.next = undefined;
    return job;
  }
}
