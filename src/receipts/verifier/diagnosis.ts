/** 6. The diagnosis. */
import type { LogEntry } from './receipt-line.ts'
import type { VerifierFinding, VerifierProblem } from './report.ts'

/** A finding that turns into another if a receipt numbered `awaits` still comes: missing, or only moved? */
export interface Doubt extends VerifierFinding {
  awaits?: number
  instead?: (later: LogEntry) => VerifierFinding
}

/**
 * `truth` holds the signed leaf hashes from receipt `base` on, `read` what the file has; they first differ at `index`.
 * Hashes decide, not what a line says of itself, so renumbering and relinking all that follows hides nothing.
 */
export function diagnose(
  read: readonly LogEntry[],
  truth: readonly Buffer[],
  index: number,
  base: number,
  checkpoint: string,
  promised: number,
): Doubt {
  const place = base + index
  const [here, due] = [read[index], truth[index]]
  const comesLater = (leaf: Buffer) => read.some((entry, i) => i > index && entry.leaf.equals(leaf))
  if (!here) return absent(place)
  const isDueLater = due !== undefined && comesLater(due)
  const known = truth.findIndex((leaf) => leaf.equals(here.leaf))
  if (known >= 0) {
    // A true receipt in a wrong place.
    if (known < index || comesLater(here.leaf)) return duplicated(here)
    return isDueLater ? reordered(place, here) : absent(place, here)
  }
  if (due && !isDueLater) {
    // The receipt that is due is gone, and something else stands there: is that it, edited?
    const what = `its bytes do not hash to leaf ${place} of ${checkpoint}`
    const edited = wrong(
      'edited',
      `${nameReceipt({ ...here, seq: place })} was edited: ${what}`,
      place,
      here.id,
    )
    if (here.seq === place) return edited
    return read.length === truth.length ? { ...absent(place, here), ...edited } : absent(place, here)
  }
  // One line too many.
  if (here.seq >= 0 && here.seq < base) return duplicated(here)
  if (here.seq < base + truth.length || here.seq >= promised) return inserted(place, here)
  const early = `${checkpoint} follows receipt ${place}, which it does not cover`
  return {
    ...(due ? reordered(place, here) : wrong('bad_checkpoint', early)),
    awaits: here.seq,
    instead: (later) => (later.leaf.equals(here.leaf) ? duplicated(here) : inserted(place, here)),
  }
}

/** Receipt `here` stands where another number is due; `first` is the one whose number it has, if that was read. */
export function misnumbered(place: number, here: LogEntry, first: LogEntry | undefined): Doubt {
  if (here.seq > place) return absent(place, here)
  return !first || first.leaf.equals(here.leaf) ? duplicated(here) : inserted(place, here)
}

/** Receipt `here` does not link to the one `before` it, which no checkpoint covers yet unless it is undefined. */
export function unlinked(here: LogEntry, before: LogEntry | undefined): VerifierFinding {
  if (!before)
    return wrong(
      'edited',
      `${nameReceipt(here)} was edited: it links to a different previous receipt`,
      here.seq,
    )
  const detail = `${nameReceipt(before)} was edited, or the link to it in receipt ${here.seq}`
  return wrong('edited', detail, before.seq, before.id)
}

/** Receipt `place` does not stand in its place: missing, unless it still comes. */
function absent(place: number, here?: LogEntry): Doubt {
  const detail = `receipt ${place} is missing: ${here ? nameReceipt(here) : 'its checkpoint'} is at its position`
  return {
    ...wrong('missing', detail, place),
    awaits: place,
    instead: (later) => reordered(place, here, later.id),
  }
}

function reordered(place: number, here?: LogEntry, id?: string): VerifierFinding {
  const detail = `receipt ${place} is out of order: ${here ? nameReceipt(here) : 'its checkpoint'} is at its position`
  return wrong('reordered', detail, place, id)
}

function duplicated(here: LogEntry): VerifierFinding {
  return wrong('duplicated', `${nameReceipt(here)} is in the log twice`, here.seq, here.id)
}

function inserted(place: number, here: LogEntry): VerifierFinding {
  const detail = `a line was inserted at the position of receipt ${place}: ${nameReceipt(here)}`
  return wrong('inserted', detail, place, here.id)
}

export function wrong(problem: VerifierProblem, detail: string, seq?: number, id?: string): VerifierFinding {
  return { problem, detail, ...(seq !== undefined && { seq }), ...(id && { id }) }
}

export function refined(doubt: Doubt, later: LogEntry): Doubt {
  return doubt.awaits === later.seq && doubt.instead ? doubt.instead(later) : doubt
}

export function nameReceipt({ seq, id }: LogEntry): string {
  const name = seq < 0 ? 'a line that is not a receipt' : `receipt ${seq}`
  return id ? `${name} (${id.slice(0, 9)}…${id.slice(-3)})` : name
}
