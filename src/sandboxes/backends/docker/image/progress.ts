/** How far the making of an image is, for whoever waits for it. */
export interface ImageProgress {
  /** From 0 to 1, by what such steps usually take. */
  readonly part: number
  readonly doing: string
}

export type OnProgress = (at: ImageProgress) => void

/** A step's own progress as a part of the whole. */
export function progressWithin(onProgress: OnProgress, from: number, to: number): OnProgress {
  return ({ part, doing }) => onProgress({ part: from + Math.min(1, Math.max(0, part)) * (to - from), doing })
}
