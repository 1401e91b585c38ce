/** 6. The diagnosis. */
import type { LogEntry } from './receipt-line.ts'
import type { VerifierFinding, VerifierProblem } from './report.ts'

/** A finding that changes if a receipt with the number `awaits` still follows: then it was moved, not removed. */
export interface Doubt extends VerifierFinding {
  awaits?: number
  instead?: (later: LogEntry) => VerifierFinding
}

/**
 * Names the first wrong receipt. `truth` holds the signed leaf hashes from receipt `base` on, `read` those of the file.
 * They first differ at `index`. Only hashes decide, so renumbering and relinking the rest hides nothing.
 */
export function diagnose(
  read: readonly LogEntry[],
  truth: readonly Buffer[],
  index: number,
  base: number,
  checkpoint: string,
  promised: number,
): Doubt {
  const position = base + index
  const [here, due] = [read[index], truth[index]]
  const comesLater = (leaf: Buffer) => read.some((entry, i) => i > index && entry.leaf.equals(leaf))
  if (!here) return absent(position)
  const isDueLater = due !== undefined && comesLater(due)
  const known = truth.findIndex((leaf) => leaf.equals(here.leaf))
  if (known >= 0) {
    // A signed receipt at a wrong position.
    if (known < index || comesLater(here.leaf)) return duplicateFinding(here)
    return isDueLater ? reorderedFinding(position, here) : absent(position, here)
  }
  if (due && !isDueLater) {
    // The expected receipt is missing, and another line is at its position. Is that line the edited receipt?
    const what = `its bytes do not hash to leaf ${position} of ${checkpoint}`
    const edited = wrong(
      'edited',
      `${nameReceipt({ ...here, seq: position })} was edited: ${what}`,
      position,
      here.id,
    )
    if (here.seq === position) return edited
    return read.length === truth.length ? { ...absent(position, here), ...edited } : absent(position, here)
  }
  // There is one line too many.
  if (here.seq >= 0 && here.seq < base) return duplicateFinding(here)
  if (here.seq < base + truth.length || here.seq >= promised) return insertedFinding(position, here)
  const early = `${checkpoint} follows receipt ${position}, which it does not cover`
  return {
    ...(due ? reorderedFinding(position, here) : wrong('bad_checkpoint', early)),
    awaits: here.seq,
    instead: (later) =>
      later.leaf.equals(here.leaf) ? duplicateFinding(here) : insertedFinding(position, here),
  }
}

/**
 * Receipt `here` has another number than its position. `first` is the receipt with the same number, if one was read.
 */
export function diagnoseNumber(position: number, here: LogEntry, first: LogEntry | undefined): Doubt {
  if (here.seq > position) return absent(position, here)
  return !first || first.leaf.equals(here.leaf) ? duplicateFinding(here) : insertedFinding(position, here)
}

/** Receipt `here` does not link to `before`. No checkpoint covers `before` yet, unless it is `undefined`. */
export function diagnoseLink(here: LogEntry, before: LogEntry | undefined): VerifierFinding {
  if (!before)
    return wrong(
      'edited',
      `${nameReceipt(here)} was edited: it links to a different previous receipt`,
      here.seq,
    )
  const detail = `${nameReceipt(before)} was edited, or the link to it in receipt ${here.seq}`
  return wrong('edited', detail, before.seq, before.id)
}

/** The receipt for `position` is missing there, unless it still follows. */
function absent(position: number, here?: LogEntry): Doubt {
  const detail = `receipt ${position} is missing: ${here ? nameReceipt(here) : 'its checkpoint'} is at its position`
  return {
    ...wrong('missing', detail, position),
    awaits: position,
    instead: (later) => reorderedFinding(position, here, later.id),
  }
}

function reorderedFinding(position: number, here?: LogEntry, id?: string): VerifierFinding {
  const detail = `receipt ${position} is out of order: ${here ? nameReceipt(here) : 'its checkpoint'} is at its position`
  return wrong('reordered', detail, position, id)
}

function duplicateFinding(here: LogEntry): VerifierFinding {
  return wrong('duplicated', `${nameReceipt(here)} is in the log twice`, here.seq, here.id)
}

function insertedFinding(position: number, here: LogEntry): VerifierFinding {
  const detail = `a line was inserted at the position of receipt ${position}: ${nameReceipt(here)}`
  return wrong('inserted', detail, position, here.id)
}

export function wrong(problem: VerifierProblem, detail: string, seq?: number, id?: string): VerifierFinding {
  return { problem, detail, ...(seq !== undefined && { seq }), ...(id && { id }) }
}

export function refineDoubt(doubt: Doubt, later: LogEntry): Doubt {
  return doubt.awaits === later.seq && doubt.instead ? doubt.instead(later) : doubt
}

export function nameReceipt({ seq, id }: LogEntry): string {
  const name = seq < 0 ? 'a line that is not a receipt' : `receipt ${seq}`
  return id ? `${name} (${id.slice(0, 9)}…${id.slice(-3)})` : name
}
