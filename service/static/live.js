// The stream of a study's events. It ends with the study, and connects again where it breaks.
import { ask, signInAddress } from "./api.js";

const RETRY = 3000;
const RETRY_BUSY = 30_000;

// take(lines, parts): new lines of the log, and what they change. says(text): the state of the connection.
export class Live {
  constructor(base, last, { take, says, ended }) {
    Object.assign(this, { base, last, take, says, ended, over: false });
  }

  listen() {
    this.over = false;
    const stream = new EventSource(`${this.base}/live?after=${this.last}`);
    stream.addEventListener("open", () => this.says("live"));
    stream.addEventListener("message", (message) => this.receive(message));
    stream.addEventListener("error", () => {
      if (this.over) {
        return;
      }
      this.says("connection lost, trying again …");
      if (stream.readyState === EventSource.CLOSED) {
        setTimeout(() => this.again(), RETRY);
      }
    });
    stream.addEventListener("end", () => {
      this.over = true;
      stream.close();
      this.says("ended");
      this.ended();
    });
  }

  // A browser that connects again repeats nothing: the service begins after the last message that arrived.
  receive(message) {
    const number = Number(message.lastEventId);
    if (number <= this.last) {
      return;
    }
    this.last = number;
    const { lines, parts } = JSON.parse(message.data);
    this.take(lines, parts);
  }

  // The stream was refused, not broken: the service says why, and whether asking again makes sense.
  async again() {
    try {
      await ask(`${this.base}/parts/head`);
      this.listen();
    } catch (problem) {
      if (problem.status === 401) {
        location.assign(signInAddress());
      } else if ([403, 404, 410].includes(problem.status)) {
        this.over = true;
        this.says(problem.message);
      } else {
        this.says(problem.status ? problem.message : "connection lost, trying again …");
        setTimeout(() => this.again(), problem.status === 429 ? RETRY_BUSY : RETRY);
      }
    }
  }
}
