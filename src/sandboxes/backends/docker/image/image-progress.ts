/** The progress of an image build, for the user who waits for it. */
export interface ImageProgress {
  /** From 0 to 1, based on the usual duration of the steps. */
  readonly part: number
  readonly doing: string
}

export type OnProgress = (at: ImageProgress) => void

/** Scales a step's own progress to its share of the whole. */
export function progressWithin(onProgress: OnProgress, from: number, to: number): OnProgress {
  return ({ part, doing }) => onProgress({ part: from + Math.min(1, Math.max(0, part)) * (to - from), doing })
}
